package operator

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/metadata"
)

// metadataFlags change the values that are recorded about something.
type metadataFlags struct {
	set   map[string]string
	unset []string
}

func (f *metadataFlags) add(c *cobra.Command, whose string, update bool) {
	pairsVar(c.Flags(), &f.set, "metadata", "a value for the configuration of "+whose+", `NAME=VALUE`; may be said again", parseValue)
	if update {
		namesVar(c.Flags(), &f.unset, "unset", metadata.CheckName, "take a value away, `NAME`; may be said again")
	}
}

// apply gives the values with what was said changed; what was not said stays.
func (f *metadataFlags) apply(have map[string]string) (map[string]string, error) {
	out := metadata.Merge(have, f.set)
	for _, name := range f.unset {
		delete(out, name)
	}
	if err := metadata.Check(f.set); err != nil {
		return nil, usageError{"--metadata: " + err.Error()}
	}
	return out, nil
}

// neverSet gives the names that are to be taken away and are not there.
func (f *metadataFlags) neverSet(have map[string]string) []string {
	return slices.DeleteFunc(slices.Clone(f.unset), func(name string) bool { _, ok := have[name]; return ok })
}
