package release

import (
	"iter"
	"maps"
)

// Programs returns the module of each program.
func Programs() iter.Seq2[string, string] {
	modules := map[string]string{}
	for _, p := range programs {
		modules[p.name] = p.module
	}
	return maps.All(modules)
}
