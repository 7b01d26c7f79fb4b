"""SGLang on CPUs, by Gloo and by ringtree."""
