// Command garrison is the operator's command line.
package main

import (
	"os"

	"github.com/garrison-fleet/garrison/pkg/lifecycle"
	"github.com/garrison-fleet/garrison/services/operator"
)

func main() {
	ctx, cancel := lifecycle.Signals()
	code := operator.Exec(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	cancel()
	os.Exit(code)
}
