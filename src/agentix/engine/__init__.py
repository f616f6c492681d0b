"""Real engines: the launcher of local ones and the vLLM plug-in.

vLLM, torch and transformers are imported only inside this package, and only in the processes that need them: the
launcher itself starts in milliseconds. Import from the modules; this file stays empty so that an engine process loads
nothing it does not use.
"""
