"""Files as transformers, PEFT and ONNX Runtime read them.

Imports: base, lm; torch."""
