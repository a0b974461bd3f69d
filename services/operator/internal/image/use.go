package image

import (
	"context"
	"slices"
	"strings"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// use is what keeps images from being deleted.
type use struct {
	images   map[string]bool     // by id: servers run or want them, or need them for a way back
	versions map[string]bool     // AGENT@VERSION: a default of an environment names them
	agents   map[string]bool     // rollouts of them have not ended
	there    map[string][]string // the versions that servers run or want, by agent
}

func (u use) has(i row) bool { return u.why(i) != "" }

// why returns what needs an image; "" for one that nothing needs.
func (u use) why(i row) string {
	switch {
	case u.images[i.GetManifest().GetId()]:
		return "servers run it, want it or need it for a way back, or a default names it"
	case u.versions[imageName(i)]:
		return "a default of an environment names its version"
	case u.agents[i.GetManifest().GetAgent()]:
		return "a rollout of its agent has not ended"
	}
	return ""
}

// offered returns the ids of the images that channels need: of each agent and platform the highest active version,
// which is what installs and upgrades choose, and those by way of which what servers have may become it.
func (u use) offered(images []row) map[string]bool {
	type kind struct{ channel, of string }
	active := map[kind][]row{}
	for _, i := range images {
		if i.GetState() == imagev1.State_STATE_ACTIVE {
			for _, c := range i.GetChannels() {
				active[kind{c, kindOf(i)}] = append(active[kind{c, kindOf(i)}], i)
			}
		}
	}
	needed := map[string]bool{}
	for _, all := range active {
		highest := slices.MaxFunc(all, compareVersions)
		for _, i := range all {
			if compareVersions(i, highest) == 0 || u.between(i, highest) {
				needed[i.GetManifest().GetId()] = true
			}
		}
	}
	return needed
}

func compareVersions(a, b row) int {
	return version.Compare(a.GetManifest().GetVersion(), b.GetManifest().GetVersion())
}

// between reports whether an image lies between another one and a version that servers have, which the other one may
// not replace at once.
func (u use) between(i, to row) bool {
	m := to.GetManifest()
	return slices.ContainsFunc(u.there[m.GetAgent()], func(have string) bool {
		return version.Compare(have, i.GetManifest().GetVersion()) < 0 && compareVersions(i, to) < 0 &&
			!slices.Contains(m.GetSkips(), have) && !version.In(have, m.GetUpgradesFrom())
	})
}

// mostUsed is how many different groups the registry counts.
const mostUsed = 1000

// readUse asks the registry what is used, of one agent or of all.
func readUse(ctx context.Context, env *cli.Env, agent string) (use, error) {
	u := use{
		images: map[string]bool{}, versions: map[string]bool{}, agents: map[string]bool{},
		there: map[string][]string{},
	}
	if err := u.readServers(ctx, env, agent); err != nil {
		return u, err
	}
	if err := u.readDefaults(ctx, env); err != nil {
		return u, err
	}
	return u, u.readRollouts(ctx, env, agent)
}

// readServers reads what servers run, want and need for a way back.
func (u use) readServers(ctx context.Context, env *cli.Env, agent string) error {
	for _, by := range [][]string{
		{"image"}, {"wanted-image"}, {"way-back"}, {"agent", "version"}, {"agent", "wanted-version"},
	} {
		r, err := cli.Call[*registryv1.CountInstancesResponse](ctx, env, &registryv1.CountInstancesRequest{
			Filter: &registryv1.ListInstancesRequest{Agent: agent}, By: by, Top: mostUsed,
		})
		if err != nil {
			return err
		}
		if r.GetCounts().GetOthers() > 0 {
			return cli.Usage("servers use more than %d images. Try: garrison image prune AGENT, one by one", mostUsed)
		}
		for _, g := range r.GetCounts().GetGroups() {
			switch v := g.GetValues(); {
			case len(by) == 1: // several images of a way back are joined
				for id := range strings.SplitSeq(v[0], ",") {
					u.images[id] = true
				}
			case v[1] != "":
				u.there[v[0]] = append(u.there[v[0]], v[1])
			}
		}
	}
	return nil
}

// readDefaults reads what the defaults of environments name.
func (u use) readDefaults(ctx context.Context, env *cli.Env) error {
	environments, err := cli.Records[*environmentv1.Environment](ctx, env, record.List(ledger.Environment))
	if err != nil {
		return err
	}
	for _, e := range environments {
		for agent, d := range e.GetDefaults() {
			u.images[d.GetImage().GetImageId()], u.versions[agent+"@"+d.GetImage().GetVersion()] = true, true
		}
	}
	return nil
}

// readRollouts reads which agents have rollouts that have not ended.
func (u use) readRollouts(ctx context.Context, env *cli.Env, agent string) error {
	rollouts, err := cli.All[*registryv1.ListRolloutsResponse](ctx, env, &registryv1.ListRolloutsRequest{Agent: agent})
	if err != nil {
		return err
	}
	for _, r := range rollouts.GetRollouts() {
		for _, agent := range r.GetAgents() {
			u.agents[agent] = u.agents[agent] || !rollout.Ended(r.GetState())
		}
	}
	return nil
}
