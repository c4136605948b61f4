"""Compile graphs.cu: find or fetch nvcc, then make program, fatbin and native loops."""
