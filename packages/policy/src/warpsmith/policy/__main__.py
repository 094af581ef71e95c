from warpsmith.policy.cli import main

main()
