from warpsmith.rollout.cli import main

main()
