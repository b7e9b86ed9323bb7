"""What stands for a worker of another machine on this one."""
