"""Problems of GPU size: 1 to 256 MiB of data, each with slow and fast solutions to choose from."""
