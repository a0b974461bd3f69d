package external

import (
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
)

// maxWanted is how many versions the record of an agent wants at most.
const maxWanted = 256

const (
	wantedOfAll = "all"
	wantedIn    = "env="
)

// Wanted returns the version that an instance should have by the record of its agent, the most specific one: by its
// name, then by the environment of its server, then that of all. Empty means that none is wanted.
func Wanted(a *agentv1.Agent, x *externalv1.External, environment string) string {
	keys := []string{x.GetFound().GetName(), wantedIn + environment, wantedOfAll}
	for _, key := range keys {
		if version, ok := a.GetWanted()[key]; ok && (key != wantedIn) {
			return version
		}
	}
	return ""
}

// checkWanted refuses versions for what is neither all, an environment nor the name of an instance. An environment
// and an instance may come later.
func checkWanted(a *agentv1.Agent) *apiv1.Refusal {
	if len(a.Wanted) > maxWanted {
		return refuse(code.BadWanted, "agent %q wants %d versions; %d are the most", a.Name, len(a.Wanted), maxWanted)
	}
	for key, version := range a.Wanted {
		environment, in := strings.CutPrefix(key, wantedIn)
		if in && ident.CheckName("environment", environment) != nil || !in && !isName.MatchString(key) {
			return refuse(code.BadWanted, "agent %q wants a version of %.80q: want all, env=NAME, or the name of an "+
				"instance", a.Name, key)
		}
		if version == "" || len(version) > maxVersion || !printable(version) {
			return refuse(code.BadWanted, "agent %q: the version that it wants of %s must be printable and have 1 to "+
				"%d bytes", a.Name, key, maxVersion)
		}
	}
	return nil
}
