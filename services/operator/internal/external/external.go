// Package external is the commands about instances that Garrison tracks and does not run: how they get into the
// inventory, and which version they should have.
package external

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// WantHelp is the help of the flag that says which version external instances should have.
const WantHelp = "which version the instances of an agent of kind external should have, `[OF=]VERSION`: of all, of " +
	"env=ENVIRONMENT, or of the instance of a name; the most specific one counts, an empty one wants none; repeatable"

// Wanted is a version that instances of an agent should have. Of is the key of the agent's record: all, an environment
// or a name.
type Wanted struct{ Of, Version string }

// ReadWanted reads a value of --want.
func ReadWanted(text string) (Wanted, error) {
	n := strings.LastIndex(text, "=")
	w := Wanted{Of: cmp.Or(text[:max(n, 0)], "all"), Version: text[n+1:]}
	if text == "" || w.Of == "env" {
		return w, fmt.Errorf("%q is not VERSION, env=ENVIRONMENT=VERSION or NAME=VERSION", text)
	}
	return w, nil
}

// Set makes an agent want the version, or none.
func (w Wanted) Set(a *agentv1.Agent) {
	if w.Version == "" {
		delete(a.GetWanted(), w.Of)
		return
	}
	if a.Wanted == nil {
		a.Wanted = map[string]string{}
	}
	a.Wanted[w.Of] = w.Version
}

// CheckWanted returns the registry's refusal of an environment that an agent newly wants a version of, and that it does
// not know.
func CheckWanted(ctx context.Context, env *cli.Env, was, now *agentv1.Agent) error {
	for of := range now.GetWanted() {
		environment, ok := strings.CutPrefix(of, "env=")
		if _, before := was.GetWanted()[of]; !ok || before {
			continue
		}
		_, err := cli.Call[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{
			Environment: environment, Page: &apiv1.Page{Limit: 1},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
