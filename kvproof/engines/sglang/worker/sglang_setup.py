"""SGLang, imported and made ready for a machine without a GPU: this comes before any of its modules."""

import logging

from sglang_standins import interpret, native_hash, quiet, stand_in

quiet()
interpret()
stand_in()

from sglang.srt.mem_cache import utils
from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

__all__: list[str] = []

utils.get_native_hash = native_hash
logging.getLogger("sglang").setLevel(logging.ERROR)
# What the caches ask the configuration for is the same for every model; there is none.
_args = ServerArgs(model_path="dummy", device="cpu", attention_backend="torch_native", skip_tokenizer_init=True)
_args._mamba_cache_chunk_size = 1  # Else the model is asked.
set_global_server_args_for_scheduler(_args)
