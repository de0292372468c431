"""The command line: every module parses the options of one command, calls the library and prints."""
