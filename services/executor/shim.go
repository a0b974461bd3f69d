package executor

import "github.com/garrison-fleet/garrison/services/executor/internal/supervise"

// Shim becomes an agent that has sockets, when the program was started by itself for
// that, and does nothing otherwise. A program that runs an executor calls it with
// os.Args before anything else.
func Shim(args []string) { supervise.Shim(args) }
