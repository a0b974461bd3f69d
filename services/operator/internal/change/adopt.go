package change

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// AdoptCommand returns the command instance adopt.
func AdoptCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	var as string
	var found candidates
	c := &cobra.Command{
		Use:   "adopt SERVER CANDIDATE --as AGENT[@VERSION|@IMAGE|@CHANNEL] | SERVER --list",
		Short: "Take over a process or a systemd service that runs, or list those that the last scan found.",
		Args: func(c *cobra.Command, a []string) error {
			if c.Flags().Changed("list") {
				return cli.Exactly("SERVER")(c, a)
			}
			return cli.Exactly("SERVER", "CANDIDATE")(c, a)
		},
		Long: `Make a process or a systemd service that runs on a server the instance of an agent, without a restart.

CANDIDATE is an id that --list shows, the name of a program, of a service, or the id of a process; it must match one of
the last scan: garrison server refresh SERVER --scan. The process keeps running as it is. It must pass the health check
of the image. When its program is the image's, Garrison starts it again should it end; otherwise the instance is shown
as drifted, and nothing changes before the next garrison up. A service stays systemd's, with its own settings: Garrison
starts it when it ends and systemd does not. The next garrison up or garrison remove stops and disables it. garrison
instance release ends the adoption and leaves everything as it is.`,
		Example: "  garrison instance adopt web-1 --list --listening\n" +
			"  garrison instance adopt web-1 nginx --as nginx@1.27.0\n" +
			"  garrison instance adopt web-1 unit/nginx.service --as nginx@1.27.0",
		RunE: func(c *cobra.Command, a []string) error {
			if err := found.check(c); err != nil {
				return err
			}
			if found.list {
				return found.print(c.Context(), env, a[0])
			}
			if as == "" {
				return cli.Usage("--as AGENT[@VERSION] is required")
			}
			t, err := parseTarget(as)
			if err != nil {
				return err
			}
			candidate, err := findCandidate(c.Context(), env, a[0], a[1])
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Adopt{Adopt: &intentv1.Adopt{
				Server: a[0], Candidate: candidate, Agent: t.agent, Image: t.image,
			}}}
			p := work.Proposal{
				Verb: topology.VerbAdopt, Question: fmt.Sprintf("Adopt %s as %s", candidate, t.agent), Asks: asked(ask),
			}
			return work.Propose(c.Context(), env, w, p)
		},
	}
	found.add(c)
	cli.TextVar(c.Flags(), &as, "as", cli.NotEmpty("agent"), "the `AGENT[@VERSION]` that it becomes")
	w.Add(c, false)
	w.AddYes(c)
	return c
}

// ReleaseCommand returns the command instance release.
func ReleaseCommand(env *cli.Env) *cobra.Command {
	var w work.Flags
	c := &cobra.Command{
		Use: "release SERVER AGENT", Short: "Let an adopted process go: the instance ends, the process runs on.",
		Args:    cli.Exactly("SERVER", "AGENT"),
		Example: "  garrison instance release web-1 nginx",
		RunE: func(c *cobra.Command, a []string) error {
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Release{Release: &intentv1.Release{
				Server: a[0], Agent: a[1],
			}}}
			p := work.Proposal{
				Verb: topology.VerbRelease, Question: fmt.Sprintf("Release %s on %s", a[1], a[0]), Asks: asked(ask),
			}
			return work.Propose(c.Context(), env, w, p)
		},
	}
	w.Add(c, false)
	w.AddYes(c)
	return c
}

// findCandidate returns the id of the one process that a text names: an id, a program or a process.
func findCandidate(ctx context.Context, env *cli.Env, server, text string) (string, error) {
	if strings.HasPrefix(text, "process/") || strings.HasPrefix(text, "unit/") {
		return text, nil // the executor knows whether it still runs
	}
	r, err := cli.All[*registryv1.ListCandidatesResponse](ctx, env, &registryv1.ListCandidatesRequest{Server: server})
	if err != nil {
		return "", err
	}
	match, names := candidatesNamed(r.GetCandidates(), text)
	if len(match) == 1 {
		return match[0], nil
	}
	refusal := &apiv1.Refusal{
		Code: code.NotFound, Nearest: nearest.Name(text, slices.Values(names)),
		Message: fmt.Sprintf("the last scan listed %d processes and services that run, and %q is not among them",
			len(names), text),
		Try: "garrison server refresh " + server + " --scan; garrison instance adopt " + server + " --list --listening",
	}
	if len(match) > 1 {
		refusal.Code, refusal.Nearest = code.Ambiguous, ""
		refusal.Message = fmt.Sprintf("%q names %d candidates: %s", text, len(match), strings.Join(match, ", "))
	}
	return "", cli.Refuse(fault.NotFound, refusal)
}

// candidatesNamed returns the ids of the candidates that a text names, and the names of all that run. A service and its
// processes are one candidate: the service.
func candidatesNamed(all []*serverv1.Candidate, text string) (match, names []string) {
	units := map[string]string{}
	for _, c := range all {
		if c.GetKind() == serverv1.CandidateKind_CANDIDATE_KIND_UNIT && c.GetPid() != 0 {
			units[c.GetName()] = c.GetId()
		}
	}
	for _, c := range all {
		isProcess := c.GetKind() == serverv1.CandidateKind_CANDIDATE_KIND_PROCESS
		if id := units[c.GetName()]; !isProcess && id != c.GetId() {
			continue
		}
		names = append(names, c.GetName())
		if text != c.GetName() && text != strings.TrimSuffix(c.GetName(), ".service") &&
			text != strconv.FormatUint(uint64(c.GetPid()), 10) {
			continue
		}
		id := cmp.Or(units[c.GetUnit()], c.GetId())
		if !slices.Contains(match, id) {
			match = append(match, id)
		}
	}
	return match, names
}

// candidates are the flags that list what the last scan of a server found.
type candidates struct {
	list bool
	page cli.PageFlags
	q    registryv1.ListCandidatesRequest
}

func (f *candidates) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.list, "list", false, "list what the last scan of the server found; change nothing")
	f.page.Add(c, 0)
	cli.TextVar(c.Flags(), &f.q.Detector, "detector", cli.Name("detector"), "with --list: only what this `DETECTOR` "+
		"found")
	c.Flags().BoolVar(&f.q.Listening, "listening", false, "with --list: only what listens on a socket")
	cli.TextVar(c.Flags(), &f.q.Name, "name", cli.NotEmpty("name"), "with --list: only names that match this "+
		"`PATTERN`, such as 'ng*'")
}

// check refuses the flags of a list without one.
func (f *candidates) check(c *cobra.Command) error {
	for _, name := range []string{"detector", "listening", "name", "limit", "cursor"} {
		if !f.list && c.Flags().Changed(name) {
			return cli.Usage("--%s requires --list", name)
		}
	}
	return nil
}

// print prints the list, and what the detectors could not list.
func (f *candidates) print(ctx context.Context, env *cli.Env, server string) error {
	f.q.Server = server
	var first *registryv1.ListCandidatesResponse
	err := cli.List(ctx, env, f.page, display.Candidates,
		func(ctx context.Context, p *apiv1.Page) (*registryv1.ListCandidatesResponse, error) {
			f.q.Page = p
			r, err := cli.Call[*registryv1.ListCandidatesResponse](ctx, env, &f.q)
			if p.GetCursor() == "" {
				first = r
			}
			return r, err
		})
	if err != nil {
		return err
	}
	for _, d := range first.GetDetections() {
		if d.GetMore() > 0 {
			env.Say("%s found %d more than the report lists", d.GetDetector(), d.GetMore())
		}
		if d.GetReason() != "" {
			env.Say("%s: %s", d.GetDetector(), d.GetReason())
		}
	}
	return nil
}
