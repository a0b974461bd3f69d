// Command garrison is the operator's command line.
package main

import (
	"os"

	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/services/operator"
)

func main() {
	ctx, cancel := rungroup.Signals()
	code := operator.Exec(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	cancel()
	os.Exit(code)
}
