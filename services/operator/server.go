package operator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

type server = *serverv1.Server

var serverListing = listing[server]{
	name: func(s server) string { return s.GetName() },
	columns: []column[server]{
		{title: "NAME", value: func(_ view, s server) string { return s.GetName() }},
		{title: "STATE", value: func(_ view, s server) string { return serverState(s) }},
		{title: "SINCE", value: func(v view, s server) string { return age(v, serverSince(s)) }, key: func(s server) string { return stamp(serverSince(s)) }},
		{title: "NEXT", value: serverNext},
		{title: "REASON", value: func(_ view, s server) string { return serverReason(s) }},
		{title: "ENV", value: func(_ view, s server) string { return s.GetEnvironment() }},
		{title: "LABELS", value: func(_ view, s server) string { return pairs(s.GetLabels()) }},
		{title: "PLATFORM", value: func(_ view, s server) string { return platform(s.GetSysinfo().GetPlatform()) }},
		{title: "ID", wide: true, value: func(_ view, s server) string { return s.GetId() }},
		{title: "CELL", wide: true, value: func(_ view, s server) string { return s.GetCell() }},
		{title: "OWNERSHIP", wide: true, value: func(_ view, s server) string { return word(s.GetOwnership()) }},
		{title: "FOUND", wide: true, value: func(_ view, s server) string { return count(uint64(foundCount(s))) }},
		{title: "UNINSTALLED", wide: true, value: func(_ view, s server) string { return uninstalled(s) }},
		{title: "CLEANED", wide: true, value: func(_ view, s server) string { return cleanedText(s) }},
		{title: "HOST", wide: true, value: func(_ view, s server) string { return s.GetSysinfo().GetHostname() }},
		{title: "SYSTEM", wide: true, value: func(_ view, s server) string { return s.GetSysinfo().GetDistribution() }},
		{title: "KERNEL", wide: true, value: func(_ view, s server) string { return s.GetSysinfo().GetKernel() }},
		{title: "EXECUTOR", wide: true, value: func(_ view, s server) string { return s.GetSysinfo().GetExecutorVersion() }},
		{title: "ENROLLED", wide: true, value: func(_ view, s server) string { return stamp(s.GetEnrolledAt()) }},
	},
}

func platform(p *serverv1.Platform) string {
	if p == nil {
		return ""
	}
	return p.GetOs() + "/" + p.GetArch()
}

// leaked reports whether something of Garrison may be left on a dead server's machine. The
// registry decides that: what a dead server still waits for is why.
func leaked(s server) bool {
	return s.GetLife() == serverv1.Life_LIFE_DEAD && len(s.GetDuties()) > 0
}

// uninstalled says when the executor said that it removes itself, or somebody had the machine cleaned, and what had to stay.
func uninstalled(s server) string {
	if s.GetLeftPaths() > 0 {
		return fmt.Sprintf("%s, but %s left", stamp(s.GetUninstalledAt()), plural(int(s.GetLeftPaths()), "path"))
	}
	return stamp(s.GetUninstalledAt())
}

// serverState says life, presence and what is out of the ordinary: standing, trouble, and
// that something was found that no instance explains.
func serverState(s server) string {
	if leaked(s) {
		return word(s.GetLife()) + ",leaked"
	}
	if s.GetLife() != serverv1.Life_LIFE_ALIVE && s.GetLife() != serverv1.Life_LIFE_DYING {
		return word(s.GetLife())
	}
	words := []string{word(s.GetLife())}
	if p := word(s.GetPresence()); p != "" {
		words = append(words, p)
	}
	if s.GetStanding() == serverv1.Standing_STANDING_QUARANTINED {
		words = append(words, word(s.GetStanding()))
	}
	if t := troubleOf(s); t.word != "" {
		words = append(words, t.word)
	}
	if foundCount(s) > 0 {
		words = append(words, "found")
	}
	return strings.Join(words, ",")
}

func serverNext(v view, s server) string {
	switch {
	case s.GetLife() == serverv1.Life_LIFE_INVITED:
		return "joins " + until(v, s.GetTokenExpiresAt())
	case leaked(s):
		return "garrison server clean " + s.GetName()
	case s.GetLife() == serverv1.Life_LIFE_DEAD:
		return "garrison server forget " + s.GetName()
	case troubleOf(s).word != "":
		return troubleOf(s).next
	case s.GetLife() == serverv1.Life_LIFE_DYING && s.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE:
		return "comes back, or is lost"
	case s.GetLife() == serverv1.Life_LIFE_DYING:
		return agentsGo(s)
	case s.GetPresence() == serverv1.Presence_PRESENCE_UNSPECIFIED: // it joined, and was never heard
		return "executor run"
	case s.GetPresence() != serverv1.Presence_PRESENCE_ONLINE:
		return "comes back"
	case foundCount(s) > 0:
		return "garrison explain " + s.GetName()
	}
	return ""
}

func (s *session) serverCommands() *cobra.Command {
	return group("server", "The machines under management",
		s.enrollCommand(), s.serverListCommand(), s.serverShowCommand(), s.serverLabelCommand(),
		s.refreshCommand(), s.decommissionCommand(), s.tombstoneCommand(), s.cleanCommand(), s.forgetCommand())
}

// longestToken is the longest time for which the registry lets a token be used.
const longestToken = 30 * 24 * time.Hour

func (s *session) enrollCommand() *cobra.Command {
	var valid time.Duration
	var file string
	var provisioned bool
	q := &registryv1.InviteServerRequest{}
	c := &cobra.Command{
		SuggestFor: []string{"add", "create", "invite", "join"},
		Use:        "enroll NAME", Short: "Make a one-time token for a server that will come; it is printed alone", Args: exactly("NAME"),
		Example: "  garrison server enroll web-1 --label rack=a1 --token-file web-1.token\n" +
			"  garrison server enroll web-1 > web-1.token",
		RunE: func(c *cobra.Command, a []string) error {
			q.Name, q.ValidFor = a[0], durationpb.New(valid)
			if provisioned {
				q.Ownership = serverv1.Ownership_OWNERSHIP_PROVISIONED
			}
			return s.enroll(c.Context(), q, file)
		},
	}
	c.Flags().StringVar(&file, "token-file", "", "write the token to this `FILE` for its owner only; do nothing when it is there already")
	pairsVar(c.Flags(), &q.Labels, "label", "a label, `LABEL=VALUE`; may be said again", parseLabel)
	textVar(c.Flags(), &q.Environment, "env", aName("environment"), "its `ENVIRONMENT`")
	textVar(c.Flags(), &q.Cell, "cell", aName("cell"), "its `SITE`")
	c.Flags().BoolVar(&provisioned, "provisioned", false, "a provisioner made the machine and takes it away: the executor never removes itself. Said once, for ever")
	timeVar(c.Flags(), &valid, "valid", time.Hour, longestToken, "how long the token may be used; thirty days at most")
	return c
}

// enroll invites a server and prints its token, or keeps it in a file. A file that is
// there already means that the server was invited before.
func (s *session) enroll(ctx context.Context, q *registryv1.InviteServerRequest, file string) error {
	if _, err := os.Stat(file); file != "" && !errors.Is(err, fs.ErrNotExist) {
		s.say("%s is there already; %s is not invited again", file, q.GetName())
		return err
	}
	r, err := call[*registryv1.InviteServerResponse](ctx, s, "InviteServer", q)
	if err != nil {
		return err
	}
	s.say("server %s (%s) may join until %s; on the machine, as root: executor join --token-file FILE", q.GetName(), r.GetServerId(), stamp(r.GetExpiresAt()))
	if file != "" {
		return renameio.WriteFile(file, []byte(r.GetToken()+"\n"), 0o600)
	}
	return showToken(s, r)
}

func (s *session) serverListCommand() *cobra.Command {
	var page pageFlags
	var on selectorFlags
	var unknown bool
	q := &registryv1.ListServersRequest{}
	c := &cobra.Command{
		Use: "list", Short: "List servers; dead ones only with --life dead or --leaked", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if unknown {
				return s.listUnknown(c)
			}
			if q.Found && q.Leaked {
				return usage("--found and --leaked exclude each other: nothing is looked for on a dead server")
			}
			var err error
			if q.On, err = on.filter(); err != nil {
				return err
			}
			return list(c.Context(), s, page, serverListing, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListServersResponse, error) {
				q.Page = p
				return call[*registryv1.ListServersResponse](ctx, s, "ListServers", q)
			})
		},
	}
	on.add(c)
	page.add(c, 0)
	textVar(c.Flags(), &q.Environment, "env", aName("environment"), "only servers of this `ENVIRONMENT`")
	pairsVar(c.Flags(), &q.Labels, "label", "only servers with this label, `LABEL=VALUE`; may be said again", parseLabel)
	wordVar(c.Flags(), &q.Life, "life", "only servers in this `LIFE`")
	c.Flags().BoolVar(&q.Leaked, "leaked", false, "only dead servers on whose machine something of Garrison may "+
		"be left, and why: no word of the executor's end, files left, an unmanaged agent, unknown ownership; never those "+
		"enrolled with --provisioned, which go with their machine")
	c.Flags().BoolVar(&q.Found, "found", false, "only servers with agents that no instance explains; garrison explain SERVER says what and what to do")
	wordVar(c.Flags(), &q.Presence, "presence", "only servers with this `PRESENCE`")
	c.Flags().BoolVar(&unknown, "unknown", false, "instead: who beats and is not under management, as one registry heard it in the last two minutes")
	return c
}

// getServer finds a server by id, unique prefix or name.
func (s *session) getServer(ctx context.Context, name string) (server, error) {
	r, err := call[*registryv1.GetServerResponse](ctx, s, "GetServer", &registryv1.GetServerRequest{Server: name})
	return r.GetServer(), err
}

func (s *session) serverShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show SERVER", Short: "Show everything about a server", Args: exactly("SERVER"),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := s.getServer(c.Context(), a[0])
			if err != nil {
				return err
			}
			info := found.GetSysinfo()
			return showOne(s, s.view(), serverListing, found,
				[2]string{"MEMORY", size(info.GetMemoryBytes())},
				[2]string{"PROCESSORS", strings.TrimSpace(fmt.Sprint(info.GetProcessors()) + " " + info.GetProcessorModel())},
				[2]string{"ADDRESSES", strings.Join(info.GetAddresses(), "\n")},
				[2]string{"BOOTED", stamp(info.GetBootedAt())},
				[2]string{"EPOCH", count(found.GetEpoch())},
				[2]string{"TROUBLE", troubleLine(found)},
				[2]string{"WAITS-FOR", dutyLines(found)},
				[2]string{"TRACES", foundLines(view{at: s.now(), wide: true}, found)})
		},
	}
}

func (s *session) forgetCommand() *cobra.Command {
	q := &registryv1.ForgetServerRequest{}
	c := &cobra.Command{
		Use: "forget SERVER", Short: "Take a dead server, or an invitation that was not used, out of every view", Args: exactly("SERVER"),
		RunE: func(c *cobra.Command, a []string) error {
			q.Server = a[0]
			r, err := call[*registryv1.ForgetServerResponse](c.Context(), s, "ForgetServer", q)
			if err != nil {
				return err
			}
			gone := &serverv1.Server{Life: serverv1.Life_LIFE_DEAD, Duties: r.GetLeaks()}
			if leaked(gone) {
				s.say("left on the machine of %s: %s", a[0], leakText(gone))
			}
			s.say("server %s (%s) forgotten; its history stays in the ledger", a[0], r.GetServerId())
			return nil
		},
	}
	c.Flags().BoolVar(&q.Leak, "leak", false,
		"also when something of Garrison may be left on its machine; what is left is printed")
	return c
}

func (s *session) refreshCommand() *cobra.Command {
	var w workFlags
	c := &cobra.Command{
		Use: "refresh [SERVER]…", Short: "Ask servers to report what they are and which agents they have",
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				w.servers.on = append(w.servers.on, strings.Join(a, ","))
			}
			on, err := w.selector()
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: on}}}
			return s.work(c.Context(), w, order{verb: topology.VerbRefresh, intent: ask})
		},
	}
	w.add(c, true)
	return c
}

func (s *session) decommissionCommand() *cobra.Command {
	var w workFlags
	var lost bool
	c := &cobra.Command{
		Use: "decommission SERVER", Short: "Remove every agent from a server, and end it", Args: exactly("SERVER"),
		SuggestFor: []string{"delete", "remove", "retire"},
		RunE:       func(c *cobra.Command, a []string) error { return s.decommission(c.Context(), w, a[0], lost) },
	}
	w.add(c, false)
	w.addYes(c)
	c.Flags().BoolVar(&lost, "lost", false, "the machine is lost: nothing is removed from it, and it is dead at once")
	return c
}

func (s *session) decommission(ctx context.Context, w workFlags, name string, lost bool) error {
	found, err := s.getServer(ctx, name)
	if err != nil {
		return err
	}
	if !w.dryRun {
		q := &registryv1.ListInstancesRequest{Server: found.GetId()}
		instances, err := s.listInstances(ctx, q)
		if err != nil {
			return err
		}
		how := "to remove from it"
		if lost {
			how = "to give up"
		}
		s.say("server %s (%s): %s %s, and the server is dead then", found.GetName(), serverState(found), plural(len(instances), "agent"), how)
		if foundCount(found) > 0 {
			s.say("what no instance explains stays on it (%d): garrison explain %s", foundCount(found), found.GetName())
		}
		if err := s.confirm(ctx, w, "Decommission "+found.GetName()+"?"); err != nil {
			return err
		}
	}
	ask := &intentv1.Intent{Ask: &intentv1.Intent_Decommission{Decommission: &intentv1.Decommission{Server: found.GetId(), Lost: lost}}}
	without := "server " + found.GetName() + " is dead; it had no agent to remove"
	if lost {
		without = "server " + found.GetName() + " is recorded as dead; nothing was run on it"
	}
	return s.work(ctx, w, order{verb: topology.VerbDecommission, intent: ask, dying: found.GetId(), without: without})
}

// allServers reads the servers that are not dead; an error is none.
func (s *session) allServers(ctx context.Context) []server {
	r, err := collect(ctx, pageFlags{}, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListServersResponse, error) {
		return call[*registryv1.ListServersResponse](ctx, s, "ListServers", &registryv1.ListServersRequest{Page: p})
	})
	if err != nil {
		return nil // names are a help; ids stand in for them
	}
	return r.GetServers()
}
