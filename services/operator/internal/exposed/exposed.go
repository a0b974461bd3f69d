// Package exposed builds the command garrison exposed: which images contain a vulnerable package, which servers run
// them, and what cures them.
package exposed

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// row is a vulnerable package in an image.
type row struct {
	Image     string `json:"image"` // AGENT@VERSION
	ID        string `json:"id"`
	Platform  string `json:"platform"`
	State     string `json:"state"`
	Ecosystem string `json:"ecosystem,omitempty"`
	Package   string `json:"package"`
	Version   string `json:"version,omitempty"`
	Maybe     bool   `json:"maybe"` // whether this version is vulnerable is uncertain
	FixedIn   string `json:"fixedIn,omitempty"`
	Servers   uint64 `json:"servers"` // how many run the image now
	Cure      string `json:"cure,omitempty"`
}

// answer is all of it.
type answer struct {
	Advisories    []*catalogv1.Advisory `json:"advisories,omitempty"`
	Exposed       []row                 `json:"exposed"`
	ExposedImages int                   `json:"exposedImages"` // those that servers run
	IdleImages    int                   `json:"idleImages"`    // those that no server runs
	Images        uint32                `json:"images"`
	WithoutSBOM   uint32                `json:"withoutSbom"`
	Unread        uint32                `json:"unread"`
	Servers       uint64                `json:"servers"` // how often exposed images run, on any server
}

var table = listing.Listing[row]{
	Name: func(r row) string { return r.ID },
	Columns: []listing.Column[row]{
		listing.Col("IMAGE", func(r row) string { return r.Image }),
		listing.Col("PACKAGE", func(r row) string { return r.Package }),
		listing.Col("VERSION", func(r row) string {
			if r.Maybe {
				return strings.TrimSpace(r.Version + " (maybe)")
			}
			return r.Version
		}),
		listing.Col("FIXED IN", func(r row) string { return cmp.Or(r.FixedIn, "-") }),
		listing.Col("SERVERS", func(r row) string { return fmt.Sprint(r.Servers) }).Numeric(),
		listing.Col("CURE", func(r row) string { return cmp.Or(r.Cure, "-") }),
		listing.Wide("PLATFORM", func(r row) string { return r.Platform }),
		listing.Wide("STATE", func(r row) string { return r.State }),
		listing.Wide("ECOSYSTEM", func(r row) string { return r.Ecosystem }),
		listing.Wide("ID", func(r row) string { return r.ID }),
	},
}

// Command returns the command exposed.
func Command(env *cli.Env) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "exposed PACKAGE[@RANGE] | ADVISORY",
		Example: "  garrison exposed 'openssl@<3.0.13'\n  garrison exposed CVE-2023-45288\n" +
			"  garrison exposed golang.org/x/net -o json",
		Short: "List images with a vulnerable package that servers run, and the cure.",
		Long: `List the images that servers run and whose SBOM has a package, with how many servers run each now, the
version that is fixed, and the command that brings a newer image of the agent that is not exposed. Asked for is a
package, with perhaps a range of versions, or an advisory that was imported, by its id or an alias such as a CVE.

Versions are compared as their ecosystem does it: Go, npm, crates.io, Pub, Hex, PyPI, Debian, Ubuntu and RPM. A row
that says maybe is uncertain: its ecosystem has no known order of versions, or the SBOM lacks the version, the ecosystem
or the release of the distribution. Images without an SBOM are counted and not looked at. What servers run from an image
that was deleted from the catalog is neither. Nothing leaves the control plane.

The exit code is 5 when images are listed, perhaps ones included, and 0 when none is.`,
		SuggestFor: []string{"cve", "vulnerable", "affected", "exposure", "vulnerabilities"},
		Args:       cli.Exactly("PACKAGE"),
		RunE: func(c *cobra.Command, a []string) error {
			r, err := cli.All[*catalogv1.ListExposedResponse](c.Context(), env,
				&catalogv1.ListExposedRequest{Subject: a[0]})
			if err != nil {
				return err
			}
			found, err := answerOf(c.Context(), env, r, all)
			if err != nil {
				return err
			}
			if err := output.Show(env.Output, table, found, found.Exposed); err != nil {
				return err
			}
			cli.SayMore(env, r)
			say(env, a[0], found)
			if len(found.Exposed) > 0 || found.Unread > 0 { // unread images may be exposed
				return cli.Ended(cli.ExitPartly)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "list images that no server runs, too")
	return c
}

// answerOf joins what the catalog found with what the registry counts. Without all, images that no server runs are
// only counted.
func answerOf(ctx context.Context, env *cli.Env, r *catalogv1.ListExposedResponse, all bool) (answer, error) {
	out := answer{
		Advisories: r.GetAdvisories(), Exposed: []row{}, Images: r.GetImages(), WithoutSBOM: r.GetWithoutSbom(),
		Unread: r.GetUnread(),
	}
	if len(r.GetExposed()) == 0 {
		return out, nil
	}
	running, err := countRunning(ctx, env, r.GetExposed())
	if err != nil {
		return out, err
	}
	counted := map[string]bool{}
	for _, e := range r.GetExposed() {
		one := row{
			Image: e.GetAgent() + "@" + e.GetImageVersion(), ID: e.GetId(), Platform: display.Platform(e.GetPlatform()),
			State: listing.Word(e.GetState()), Ecosystem: e.GetEcosystem(), Package: e.GetPackage(),
			Version: e.GetVersion(), Maybe: e.GetMaybe(), FixedIn: e.GetFixedIn(), Servers: running[e.GetId()],
		}
		if e.GetCure() != "" {
			one.Cure = "garrison up " + e.GetAgent() + "@" + e.GetCure() + " --on all"
		}
		if !counted[one.ID] {
			counted[one.ID] = true
			out.Servers += one.Servers
			if one.Servers > 0 {
				out.ExposedImages++
			}
		}
		if one.Servers > 0 || all {
			out.Exposed = append(out.Exposed, one)
		}
	}
	out.IdleImages = len(counted) - out.ExposedImages
	return out, nil
}

// mostImages is how many different images the registry counts in one answer.
const mostImages = 1000

// countRunning returns how many servers run each image, by id. One request answers for most fleets; where more images
// run than an answer has, there is one for each agent.
func countRunning(ctx context.Context, env *cli.Env, rows []*catalogv1.Exposed) (map[string]uint64, error) {
	agents := map[string]bool{}
	for _, e := range rows {
		agents[e.GetAgent()] = true
	}
	running := map[string]uint64{}
	count := func(agent string) (whole bool, err error) {
		r, err := cli.Call[*registryv1.CountInstancesResponse](ctx, env, &registryv1.CountInstancesRequest{
			Filter: &registryv1.ListInstancesRequest{Agent: agent}, By: []string{"image"}, Top: mostImages,
		})
		for _, g := range r.GetCounts().GetGroups() {
			running[g.GetValues()[0]] = g.GetCount()
		}
		return r.GetCounts().GetOthers() == 0, err
	}
	if whole, err := count(""); err != nil || whole {
		return running, err
	}
	for agent := range agents {
		whole, err := count(agent)
		if err != nil {
			return nil, err
		}
		if !whole {
			env.Say("agent %s runs from more than %d images; those on the fewest servers are counted as 0", agent,
				mostImages)
		}
	}
	return running, nil
}

// say prints what was looked at, the counts, and the command to begin with.
func say(env *cli.Env, subject string, a answer) {
	for _, one := range a.Advisories {
		env.Say("%s: %s", one.GetId(), cmp.Or(one.GetSummary(), "no summary"))
	}
	if a.WithoutSBOM > 0 {
		env.Say("%s no SBOM: %s not looked at", has(a.WithoutSBOM), are(a.WithoutSBOM))
	}
	if a.Unread > 0 {
		env.Say("%s not been read, or cannot be: %s not looked at; try again in a minute", has(a.Unread), are(a.Unread))
	}
	looked := listing.Plural(int(a.Images-a.WithoutSBOM-a.Unread), "image")
	if a.IdleImages > 0 {
		env.Say("images with it that no server runs: %d; to list them: garrison exposed %s --all", a.IdleImages,
			listing.Quote(subject))
	}
	if len(a.Exposed) == 0 {
		known := "no server is exposed to %s (%s looked at)"
		if a.Unread > 0 {
			known = "no server is known to be exposed to %s (%s looked at)"
		}
		env.Say(known, listing.Quote(subject), looked)
		return
	}
	text := fmt.Sprintf("%d of %s exposed, with %s", a.ExposedImages, looked,
		listing.Plural(int(a.Servers), "instance"))
	// A row that most servers run comes first.
	first := slices.MaxFunc(a.Exposed, func(x, y row) int {
		return cmp.Or(cmp.Compare(min(len(x.Cure), 1), min(len(y.Cure), 1)), cmp.Compare(x.Servers, y.Servers))
	})
	if first.Cure == "" {
		env.Say("%s; the catalog has no newer image that is not exposed: build one and import it", text)
		return
	}
	env.Say("%s; begin with: %s", text, first.Cure)
}

func has(n uint32) string {
	if n == 1 {
		return "1 image has"
	}
	return fmt.Sprintf("%d images have", n)
}

func are(n uint32) string {
	if n == 1 {
		return "it is"
	}
	return "they are"
}
