// Package debug builds garrison debug, which prints the state of a process on the same machine over its debug socket.
package debug
