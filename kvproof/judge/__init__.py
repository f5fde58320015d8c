"""Whatever is driven is judged here: by what it told, and by ghost content that the kit keeps."""
