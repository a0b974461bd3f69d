package importer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

const (
	// servedByIntent is how many servers one intent names.
	servedByIntent = 500
)

// site is what the inventory has of the servers and agents of a dump.
type site struct {
	servers map[string]*serverv1.Server  // by id; those that are not dead
	wanted  map[string]map[string]string // the version that is wanted, by agent and server; "" while it goes
	images  map[string][]string          // the versions in the catalog, and those that this import brings, by agent
	own     map[[2]string]bool           // the instances whose own values were set before, by agent and server
}

// installs is what becomes of the agents on the servers of a dump.
type installs struct {
	shown   []declare.Shown
	skipped []declare.Skipped
	due     map[[2]string][]string // the ids of servers, by agent and version
	origins map[[2]string]string   // what an instance is called there, by agent and server

	own       map[[2]string]map[string]string // own values of what is due, by agent and server
	configure map[[2]string]map[string]string // own values of instances that are there, by agent and server
}

// readSite reads what the inventory has of the agents of a dump. An agent that this import creates has nothing yet.
func readSite(
	ctx context.Context, env *cli.Env, live declare.Live, placed []triton.Placed, uploads []upload,
) (site, error) {
	s := site{
		servers: map[string]*serverv1.Server{}, wanted: map[string]map[string]string{}, images: map[string][]string{},
		own: map[[2]string]bool{},
	}
	servers, err := cli.All[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{})
	if err != nil {
		return s, err
	}
	for _, one := range servers.GetServers() {
		s.servers[one.GetId()] = one
	}
	for _, p := range placed {
		if _, read := s.wanted[p.Agent]; read {
			continue
		}
		s.wanted[p.Agent] = map[string]string{}
		if _, lives := live[declare.Agents][p.Agent]; !lives {
			continue
		}
		rows, err := fleet.Instances(ctx, env, &registryv1.ListInstancesRequest{Agent: p.Agent})
		if err != nil {
			return s, err
		}
		for _, r := range rows {
			i := r.GetInstance()
			s.wanted[p.Agent][i.GetServerId()] = i.GetWanted().GetVersion()
			s.own[[2]string{p.Agent, i.GetServerId()}] = i.GetOwnChange() != nil
		}
		if s.images[p.Agent], err = versionsOf(ctx, env, p.Agent); err != nil {
			return s, err
		}
	}
	for _, u := range uploads {
		s.images[u.Agent] = append(s.images[u.Agent], u.Version)
	}
	return s, nil
}

// plan decides what becomes of each agent on each server of a dump: it is installed at the version that runs there, on
// servers that joined and do not have it. No version changes. An instance that is there gets its own values, unless it
// ever had some.
func (s site) plan(placed []triton.Placed) installs {
	out := installs{
		due: map[[2]string][]string{}, origins: map[[2]string]string{},
		own: map[[2]string]map[string]string{}, configure: map[[2]string]map[string]string{},
	}
	for _, p := range placed {
		server := s.servers[p.Server]
		name := p.Server + "/" + p.Agent
		if server != nil {
			name = server.GetName() + "/" + p.Agent
		}
		wanted, has := s.wanted[p.Agent][p.Server]
		row := declare.Shown{Kind: "instance", Name: name, Field: "version", After: p.Version}
		row.Note = originOf(p)
		skip := func(format string, args ...any) {
			out.skipped = append(out.skipped, declare.Skipped{
				Kind: row.Kind, Name: name, Reason: fmt.Sprintf(format, args...),
			})
		}
		switch life := server.GetLife(); {
		case has && wanted == p.Version:
			out.configureOnce(p, name, s.own[[2]string{p.Agent, p.Server}])
		case has && wanted == "":
			skip("it is being removed")
		case has:
			skip("%s is wanted here, and %s runs there; an import changes no version", wanted, p.Version)
		case p.Version == "":
			skip("its version is not known: the dump lacks the manifest of its image")
		case !slices.Contains(s.images[p.Agent], p.Version):
			skip("the catalog has no image %s@%s; garrison image build FILE --triton MANIFEST makes one", p.Agent,
				p.Version)
		case server == nil || life == serverv1.Life_LIFE_INVITED:
			row.Action = "expect"
			row.Note = strings.Trim(row.Note+"; installed by this import once the server has joined", "; ")
			out.shown = append(out.shown, row)
		case life != serverv1.Life_LIFE_ALIVE:
			skip("the server is %s", listing.Word(life))
		default:
			row.Action = "install"
			out.shown = append(out.shown, row)
			key := [2]string{p.Agent, p.Version}
			out.due[key] = append(out.due[key], p.Server)
			out.origins[[2]string{p.Agent, p.Server}] = originOf(p)
			out.own[[2]string{p.Agent, p.Server}] = p.Own
			out.shown = append(out.shown, ownRows(row.Action, name, p.Own)...)
		}
	}
	return out
}

// originOf returns what an instance is called there; empty when it is not known.
func originOf(p triton.Placed) string {
	if p.UUID == "" {
		return ""
	}
	return triton.Origin(p.UUID)
}

// check refuses to reach many servers without waves.
func (i installs) check(atOnce bool) error {
	n := map[string]int{}
	for key, servers := range i.due {
		n[key[0]] += len(servers)
	}
	for _, agent := range slices.Sorted(maps.Keys(n)) {
		if n[agent] > work.MostAtOnce && !atOnce {
			return cli.Usage("--install would install %s on %d servers at once; %d are allowed without "+
				"--at-once. Try: garrison rollout start --install %s@VERSION --on SELECTOR --canaries 3 --waves 10%%, "+
				"and then the import again", agent, n[agent], work.MostAtOnce, agent)
		}
	}
	return nil
}

// asks returns the intents that install what is due, in the order of agents and versions.
func (i installs) asks() (out []*registryv1.PlanIntentRequest) {
	keys := slices.SortedFunc(maps.Keys(i.due), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		for _, servers := range i.chunks(key[0], i.due[key]) {
			origins, own := map[string]string{}, map[string]*intentv1.OwnValues{}
			for _, server := range servers {
				if o := i.origins[[2]string{key[0], server}]; o != "" {
					origins[server] = o
				}
				if values := i.own[[2]string{key[0], server}]; len(values) > 0 {
					own[server] = &intentv1.OwnValues{Values: values}
				}
			}
			out = append(out, &registryv1.PlanIntentRequest{Intent: &intentv1.Intent{
				Ask: &intentv1.Intent_Install{Install: &intentv1.Install{
					Agent: key[0],
					Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: key[1]}},
					On:    &intentv1.Selector{Servers: servers}, Origins: origins, Own: own,
				}},
			}})
		}
	}
	return out
}

// install publishes the intents for what is due. The work goes on after the import.
func (f *tritonFlags) install(ctx context.Context, env *cli.Env, i installs) error {
	w := work.Flags{Yes: f.Yes, Detach: true, AtOnce: f.AtOnce, Note: "garrison import triton"}
	for _, p := range []work.Proposal{
		{Verb: topology.VerbInstall, Question: "Install", Asks: i.asks()},
		{Verb: topology.VerbConfigure, Question: "Configure", Asks: i.configures()},
	} {
		if len(p.Asks) == 0 {
			continue
		}
		if err := work.Propose(ctx, env, w, p); err != nil {
			return err
		}
	}
	return nil
}

// bytesByIntent bounds the own values that one intent brings.
const bytesByIntent = 128 << 10

// ownRows returns the own values of an instance as lines of a plan.
func ownRows(action, name string, own map[string]string) (out []declare.Shown) {
	for _, key := range slices.Sorted(maps.Keys(own)) {
		out = append(out, declare.Shown{
			Action: action, Kind: "instance", Name: name, Field: "metadata." + key, After: metadata.Text(own[key]),
		})
	}
	return out
}

// configureOnce brings own values to an instance that is there, unless it had some before.
func (i *installs) configureOnce(p triton.Placed, name string, before bool) {
	if len(p.Own) > 0 && !before {
		i.configure[[2]string{p.Agent, p.Server}] = p.Own
		i.shown = append(i.shown, ownRows("configure", name, p.Own)...)
	}
}

// chunks divides servers that get an agent into parts of one intent each: not too many, nor with too large values.
func (i installs) chunks(agent string, servers []string) (out [][]string) {
	size := 0
	for _, server := range servers {
		add := sizeOf(i.own[[2]string{agent, server}])
		last := len(out) - 1
		if last < 0 || len(out[last]) == servedByIntent || size+add > bytesByIntent {
			out, last, size = append(out, nil), last+1, 0
		}
		out[last], size = append(out[last], server), size+add
	}
	return out
}

func sizeOf(own map[string]string) (n int) {
	for key, value := range own {
		n += len(key) + len(value)
	}
	return n
}

// configures returns the intents that set own values of instances that are there and never had any. Instances of an
// agent with the same values share one.
func (i installs) configures() (out []*registryv1.PlanIntentRequest) {
	type key struct{ agent, digest string }
	shared := map[key]*intentv1.Configure{}
	for _, at := range slices.SortedFunc(maps.Keys(i.configure), func(a, b [2]string) int {
		return slices.Compare(a[:], b[:])
	}) {
		own := i.configure[at]
		k := key{at[0], string(metadata.Digest(own))}
		ask := shared[k]
		if ask == nil || len(ask.GetOn().GetServers()) == servedByIntent {
			never := uint64(0)
			ask = &intentv1.Configure{Agent: at[0], On: &intentv1.Selector{}, Set: own, IfRevision: &never}
			shared[k] = ask
			out = append(out, &registryv1.PlanIntentRequest{
				Intent: &intentv1.Intent{Ask: &intentv1.Intent_Configure{Configure: ask}},
			})
		}
		ask.On.Servers = append(ask.On.Servers, at[1])
	}
	return out
}
