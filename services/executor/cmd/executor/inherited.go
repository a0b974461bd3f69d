package main

import "syscall"

// agentUmask is the umask of this process, and so of agents that it starts: that of a service under systemd.
const agentUmask = 0o022

// setInherited sets what agents inherit from this process, whatever it inherited itself: some init scripts and
// containers start a program with a umask of 0, and each user could change what an agent writes.
func setInherited() { syscall.Umask(agentUmask) }
