# Beside llama.cpp itself we need none of its tools, nor what they link to.
set(LLAMA_BUILD_COMMON OFF)
