// Package available finds the images that are newer than what servers are wanted to have. It is pure.
package available

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/noun/block"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// By is the fields by which instances are counted for List, in the order of the values of its groups: those that decide
// which image is newest, and the version that is wanted.
var By = []string{"agent", "env", "platform", "wanted-version"}

// Reader is the view that List reads.
type Reader interface {
	image.Reader
	Agent(name string) (*agentv1.Agent, bool)
	Environment(name string) (*environmentv1.Environment, bool)
	Block(id string) (*blockv1.Block, bool)
}

// List returns a row for each agent, environment and platform of groups, in the order of Key. An instance that is being
// removed has no wanted version and does not count.
func List(r Reader, groups []*registryv1.CountGroup) []*registryv1.Available {
	rows := map[[3]string]*registryv1.Available{}
	for _, g := range groups {
		of, wanted := [3]string(g.Values[:3]), g.Values[3]
		if wanted == "" {
			continue
		}
		if of[1] == environment.None {
			of[1] = ""
		}
		if rows[of] == nil {
			rows[of] = newest(r, of[0], of[1], of[2])
		}
		add(rows[of], wanted, g.Count)
	}
	list := make([]*registryv1.Available, 0, len(rows))
	for _, row := range rows {
		heedBlock(r, row)
		slices.SortFunc(row.Versions, func(a, b *registryv1.AvailableVersion) int {
			return cmp.Or(version.Compare(a.Version, b.Version), cmp.Compare(a.Version, b.Version))
		})
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b *registryv1.Available) int { return cmp.Compare(Key(a), Key(b)) })
	return list
}

// Key returns the key of a row. No name holds a slash.
func Key(a *registryv1.Available) string {
	return strings.Join([]string{a.GetAgent(), a.GetEnvironment(), platformWord(a.GetPlatform())}, "/")
}

// After returns the rows with keys after a key; all of them, or only those with something newer or a refusal.
func After(rows []*registryv1.Available, key string, all bool) iter.Seq2[string, *registryv1.Available] {
	return func(yield func(string, *registryv1.Available) bool) {
		for _, a := range rows {
			if k := Key(a); k > key && (all || a.Behind > 0 || a.Refusal != nil) && !yield(k, a) {
				return
			}
		}
	}
}

// newest returns a row without instances, with the image that an upgrade without a version would choose.
func newest(r Reader, agent, env, platform string) *registryv1.Available {
	goos, arch, _ := strings.Cut(platform, "/")
	row := &registryv1.Available{
		Agent: agent, Environment: env, Platform: &serverv1.Platform{Os: goos, Arch: arch},
	}
	a, ok := r.Agent(agent)
	if !ok {
		a = &agentv1.Agent{Name: agent}
	}
	e, _ := r.Environment(env)
	row.Channel = channelName(r, e)
	found, refusal := image.Choose(r, image.Want{
		Agent: a, Choice: &intentv1.ImageChoice{}, Channel: e.GetChannel(), Platform: row.Platform,
	})
	if row.Refusal = refusal; refusal == nil {
		row.Version, row.ImageId = found.Manifest.Version, found.Manifest.Id
		row.BuiltAt = found.Manifest.PublishedAt
	}
	return row
}

// heedBlock makes the block of the newest image the refusal of a row: no upgrade brings it.
func heedBlock(r Reader, row *registryv1.Available) {
	i, ok := r.Image(row.ImageId)
	if !ok || row.Behind == 0 {
		return
	}
	build := block.OfImage(row.Agent, image.Ref(i.Manifest), row.Platform)
	if b, ok := r.Block(block.ID(build)); ok {
		row.Refusal, row.Behind = intent.Blocked(b), 0
	}
}

// channelName returns the channel that an environment follows: its own, else the default one; empty without both.
func channelName(r Reader, e *environmentv1.Environment) string {
	if name := e.GetChannel(); name != "" {
		return name
	}
	for c := range r.Channels() {
		if c.GetDefault() {
			return c.GetName()
		}
	}
	return ""
}

// add counts instances at a version.
func add(row *registryv1.Available, wanted string, instances uint64) {
	row.Instances += instances
	row.Versions = append(row.Versions, &registryv1.AvailableVersion{Version: wanted, Instances: instances})
	if row.Version != "" && image.Older(wanted, row.Version) {
		row.Behind += instances
	}
}

// platformWord returns a platform in one word, as a selector names it; empty when it is unknown.
func platformWord(p *serverv1.Platform) string {
	if p.GetOs() == "" && p.GetArch() == "" {
		return ""
	}
	return p.GetOs() + "/" + p.GetArch()
}
