package record

import (
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// Edits are the changes of the flags on a command line, in their order.
type Edits[T any] []func(T)

// EditVar adds a flag that sets one field. Without the flag the field stays as it is.
func EditVar[T, V any](
	f *pflag.FlagSet,
	said *Edits[T],
	name, help string,
	read func(string) (V, error),
	set func(T, V),
) {
	f.Var(cli.FlagValue{Read: func(text string) error {
		v, err := read(text)
		*said = append(*said, func(t T) { set(t, v) })
		return err
	}}, name, help)
}
