from warpsmith.evaluator.cli import main

main()
