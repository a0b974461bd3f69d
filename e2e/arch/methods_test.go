package arch_test

import (
	"cmp"
	"go/ast"
	"go/token"
	"path"
	"testing"
)

// mostMethods is how many methods a type may have: one with more is two types.
const mostMethods = 25

// tooMany are the types that have more, with their numbers. The list only shrinks: a type that lost methods gets its
// new number, and leaves the list at mostMethods.
var tooMany = map[string]int{
	"deploy/allinone.Garrison": 37,
	"e2e/chaos.World":          51,
	"e2e/rig.Fleet":            49,

	"pkg/client.Client":                                      55,
	"services/executor.Executor":                             30,
	"services/executor/cmd/executor.flags":                   39,
	"services/executor/internal/engine.Engine":               44,
	"services/executor/internal/journal.Tx":                  45,
	"services/executor/internal/layout.Root":                 44,
	"services/executor/internal/observe.Observer":            32,
	"services/executor/simulation.engine":                    30,
	"services/executor/internal/systemd.unit":                36,
	"services/image-catalog.Catalog":                         28,
	"services/operator/internal/watch.watcher":               27,
	"services/registry/internal/rollout/forecast.simulation": 26,
	"services/registry/internal/serve/beats.Watch":           33,
}

func TestTypesHaveFewMethods(t *testing.T) {
	methods := map[string]int{}
	parsed(t, func(file string, _ *token.FileSet, tree *ast.File) {
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[path.Dir(file)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	})
	for name, have := range methods {
		if most := cmp.Or(tooMany[name], mostMethods); have > most {
			t.Errorf("%s has %d methods; %d is the limit: make two types of it", name, have, most)
		}
	}
	for name, listed := range tooMany {
		if have := methods[name]; have < listed {
			t.Errorf("%s has %d methods: write that in the list instead of %d, or delete it there", name, have, listed)
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
