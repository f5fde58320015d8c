"""The reference implementation beside the specification, by subject: instances, how they are driven and seen."""
