"""A gallery in Milvus: for more subjects than one machine holds, and for many machines that ask."""
