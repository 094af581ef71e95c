from warpsmith.records.cli import main

main()
