from warpsmith.trainer.cli import main

main()
