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
		{title: "SINCE", value: func(v view, s server) string { return age(v, s.GetSince()) }, key: func(s server) string { return stamp(s.GetSince()) }},
		{title: "NEXT", value: serverNext},
		{title: "REASON", value: func(_ view, s server) string { return s.GetReason() }},
		{title: "ENV", value: func(_ view, s server) string { return s.GetEnvironment() }},
		{title: "LABELS", value: func(_ view, s server) string { return pairs(s.GetLabels()) }},
		{title: "PLATFORM", value: func(_ view, s server) string { return platform(s.GetSysinfo().GetPlatform()) }},
		{title: "ID", wide: true, value: func(_ view, s server) string { return s.GetId() }},
		{title: "CELL", wide: true, value: func(_ view, s server) string { return s.GetCell() }},
		{title: "OWNERSHIP", wide: true, value: func(_ view, s server) string { return word(s.GetOwnership()) }},
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

// serverState says life, presence and, when it is out of the ordinary, standing.
func serverState(s server) string {
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
	return strings.Join(words, ",")
}

func serverNext(v view, s server) string {
	switch {
	case s.GetLife() == serverv1.Life_LIFE_INVITED:
		return "joins " + until(v, s.GetTokenExpiresAt())
	case s.GetLife() == serverv1.Life_LIFE_DEAD:
		return "garrison server forget"
	case s.GetLife() == serverv1.Life_LIFE_DYING && s.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE:
		return "comes back, or is lost"
	case s.GetLife() == serverv1.Life_LIFE_DYING:
		return "agents go"
	case s.GetPresence() == serverv1.Presence_PRESENCE_UNSPECIFIED: // it joined, and was never heard
		return "executor run"
	case s.GetPresence() != serverv1.Presence_PRESENCE_ONLINE:
		return "comes back"
	}
	return ""
}

func (s *session) serverCommands() *cobra.Command {
	return group("server", "The machines under management",
		s.enrollCommand(), s.serverListCommand(), s.serverShowCommand(), s.serverLabelCommand(),
		s.refreshCommand(), s.decommissionCommand(), s.forgetCommand())
}

func (s *session) enrollCommand() *cobra.Command {
	var labels []string
	var valid time.Duration
	var file string
	q := &registryv1.InviteServerRequest{}
	c := &cobra.Command{
		Use: "enroll NAME", Short: "Make a one-time token for a server that will come; it is printed alone", Args: exactly("NAME"),
		Example: "  garrison server enroll web-1 --label rack=a1 --token-file web-1.token\n" +
			"  garrison server enroll web-1 > web-1.token",
		RunE: func(c *cobra.Command, a []string) (err error) {
			q.Name, q.ValidFor = a[0], durationpb.New(valid)
			if q.Labels, err = parseLabels("--label", labels); err != nil {
				return err
			}
			return s.enroll(c.Context(), q, file)
		},
	}
	c.Flags().StringVar(&file, "token-file", "", "write the token to this `FILE` for its owner only; do nothing when it is there already")
	c.Flags().StringArrayVar(&labels, "label", nil, "a label, `LABEL=VALUE`; may be said again")
	c.Flags().StringVar(&q.Environment, "env", "", "its `ENVIRONMENT`")
	c.Flags().StringVar(&q.Cell, "cell", "", "its `SITE`")
	c.Flags().DurationVar(&valid, "valid", time.Hour, "how long the token may be used")
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
	var labels []string
	var life, presence string
	q := &registryv1.ListServersRequest{}
	c := &cobra.Command{
		Use: "list", Short: "List servers; dead ones only with --life dead", Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if q.Labels, err = parseLabels("--label", labels); err != nil {
				return err
			}
			if q.Life, err = parseWord[serverv1.Life]("--life", life); err != nil {
				return err
			}
			if q.Presence, err = parseWord[serverv1.Presence]("--presence", presence); err != nil {
				return err
			}
			return list(c.Context(), s, page, serverListing, func(ctx context.Context, p *apiv1.Page) (*registryv1.ListServersResponse, error) {
				q.Page = p
				return call[*registryv1.ListServersResponse](ctx, s, "ListServers", q)
			})
		},
	}
	page.add(c, 0)
	c.Flags().StringVar(&q.Environment, "env", "", "only servers of this `ENVIRONMENT`")
	c.Flags().StringArrayVar(&labels, "label", nil, "only servers with this label, `LABEL=VALUE`; may be said again")
	c.Flags().StringVar(&life, "life", "", "only servers in this `LIFE`: "+strings.Join(words(serverv1.Life(0).Descriptor()), ", "))
	c.Flags().StringVar(&presence, "presence", "", "only servers with this `PRESENCE`: "+strings.Join(words(serverv1.Presence(0).Descriptor()), ", "))
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
				[2]string{"BOOTED", stamp(info.GetBootedAt())})
		},
	}
}

func (s *session) serverLabelCommand() *cobra.Command {
	var env string
	c := &cobra.Command{
		Use: "label SERVER [LABEL=VALUE | LABEL-]…", Short: "Set labels (LABEL=VALUE), take them away (LABEL-), or move to another environment",
		Args: func(c *cobra.Command, a []string) error {
			if len(a) == 0 || len(a) == 1 && !c.Flags().Changed("env") {
				return usage("garrison server label wants a server and a change. Try: garrison server label SERVER LABEL=VALUE")
			}
			return nil
		},
		RunE: func(c *cobra.Command, a []string) error {
			q, err := changeOf(a[0], a[1:])
			if err != nil {
				return err
			}
			if c.Flags().Changed("env") {
				q.Environment = &env
			}
			r, err := call[*registryv1.ChangeServerResponse](c.Context(), s, "ChangeServer", q)
			if err != nil {
				return err
			}
			return changed(s, serverListing, r.GetServer(), "server %s changed", r.GetServer().GetName())
		},
	}
	c.Flags().StringVar(&env, "env", "", "the `ENVIRONMENT` it belongs to; empty means none")
	return c
}

// changeOf reads LABEL=VALUE and LABEL- words.
func changeOf(server string, words []string) (*registryv1.ChangeServerRequest, error) {
	q := &registryv1.ChangeServerRequest{Server: server, SetLabels: map[string]string{}}
	for _, w := range words {
		if label, ok := strings.CutSuffix(w, "-"); ok && !strings.Contains(w, "=") && label != "" {
			q.UnsetLabels = append(q.UnsetLabels, label)
			continue
		}
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return nil, usage("%q is neither LABEL=VALUE nor LABEL-", w)
		}
		q.SetLabels[k] = v
	}
	return q, nil
}

func (s *session) forgetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "forget SERVER", Short: "Take a dead server, or an invitation that was not used, out of every view", Args: exactly("SERVER"),
		RunE: func(c *cobra.Command, a []string) error {
			r, err := call[*registryv1.ForgetServerResponse](c.Context(), s, "ForgetServer", &registryv1.ForgetServerRequest{Server: a[0]})
			if err == nil {
				s.say("server %s (%s) forgotten; its history stays in the ledger", a[0], r.GetServerId())
			}
			return err
		},
	}
}

func (s *session) refreshCommand() *cobra.Command {
	var w workFlags
	c := &cobra.Command{
		Use: "refresh [SERVER]…", Short: "Ask servers to report what they are and which agents they have",
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) > 0 {
				w.on = append(w.on, strings.Join(a, ","))
			}
			on, err := parseSelector(w.on)
			if err != nil {
				return err
			}
			ask := &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: on}}}
			return s.work(c.Context(), w, order{verb: topology.VerbRefresh, intent: ask, on: on})
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
		RunE: func(c *cobra.Command, a []string) error { return s.decommission(c.Context(), w, a[0], lost) },
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
		if err := s.confirm(ctx, w, "Decommission "+found.GetName()+"?"); err != nil {
			return err
		}
	}
	ask := &intentv1.Intent{Ask: &intentv1.Intent_Decommission{Decommission: &intentv1.Decommission{Server: found.GetId(), Lost: lost}}}
	return s.work(ctx, w, order{verb: topology.VerbDecommission, intent: ask, dying: found.GetId()})
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
