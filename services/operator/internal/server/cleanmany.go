package server

import (
	"context"
	"strings"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/ssh"
)

// cleanedAtOnce is how many machines are cleaned side by side.
const cleanedAtOnce = 4

// cleaned is the outcome on one machine of several.
type cleaned struct {
	Server  string `json:"server"`
	ID      string `json:"id"`
	Host    string `json:"host"`
	Result  string `json:"result"`
	Removed uint32 `json:"removed"`
	Left    uint32 `json:"left"`
	Reason  string `json:"reason,omitempty"`
}

type cleanedList struct {
	Cleaned []cleaned `json:"cleaned"`
}

var cleanedListing = listing.Listing[cleaned]{
	Name: func(c cleaned) string { return c.Server },
	Columns: []listing.Column[cleaned]{
		listing.Col("SERVER", func(c cleaned) string { return c.Server }),
		listing.Col("HOST", func(c cleaned) string { return c.Host }),
		listing.Col("RESULT", func(c cleaned) string { return c.Result }),
		listing.Col("REMOVED", func(c cleaned) string { return listing.Count(uint64(c.Removed)) }).Numeric(),
		listing.Col("LEFT", func(c cleaned) string { return listing.Count(uint64(c.Left)) }).Numeric(),
		listing.Col("REASON", func(c cleaned) string { return c.Reason }),
		listing.Wide("ID", func(c cleaned) string { return c.ID }),
	},
}

// note notes the outcome of a clean-up.
func (c *cleaned) note(o ssh.Outcome, err error) {
	c.Removed, c.Left = o.GetRemoved(), o.GetLeft()
	switch {
	case err != nil:
		c.Result, c.Reason = "failed", cli.LineOf(err)
	case o.GetDryRun():
		c.Result = "dry run"
	default:
		c.Result = "clean"
	}
}

// loginOf returns the login at a server's machine: {name}, {hostname} and {address} stand for what the server last
// reported.
func loginOf(pattern string, s display.Server) (string, error) {
	info := s.GetSysinfo()
	address := ""
	if all := info.GetAddresses(); len(all) > 0 {
		address = all[0]
	}
	var pairs []string
	for word, value := range map[string]string{
		"{name}": s.GetName(), "{hostname}": info.GetHostname(), "{address}": address,
	} {
		if strings.Contains(pattern, word) && value == "" {
			return "", cli.Usage("server %s has no %s, which --ssh names", s.GetName(), strings.Trim(word, "{}"))
		}
		pairs = append(pairs, word, value)
	}
	login := strings.NewReplacer(pairs...).Replace(pattern) // a value that looks like a word stays as it is
	return login, ssh.CheckLogin(login)
}

// cleanMany shows which leaked servers would be cleaned, asks, and cleans their machines.
func cleanMany(ctx context.Context, env *cli.Env, f *cleanFlags, names []string) error {
	if f.receipt != "" {
		return cli.Usage("--receipt is of one server. Try: garrison server clean SERVER --receipt FILE")
	}
	if !strings.Contains(f.host.To, "{") {
		return cli.Usage("--ssh %s is one machine. Try: --ssh root@{hostname}", f.host.To)
	}
	if err := cli.Prints(env, cleanedListing)(nil, nil); err != nil {
		return err
	}
	found, err := picked(ctx, env, f.on, names, &registryv1.ListServersRequest{Leaked: true}, "leaked server")
	if err != nil {
		return err
	}
	logins := map[string]string{}
	for _, s := range found {
		if logins[s.GetId()], err = loginOf(f.host.To, s); err != nil {
			return err
		}
	}
	if !f.work.DryRun {
		sayServers(env, found)
		env.Say("everything left below %s on their machines will be removed, agents first", f.host.Root)
		question := "Clean " + listing.Plural(len(found), "machine") + "?"
		if err := env.Confirm(ctx, f.work.Yes, question); err != nil {
			return err
		}
	}
	rows := make([]cleaned, len(found))
	at := map[string]int{}
	for n, s := range found {
		at[s.GetId()] = n
		rows[n] = cleaned{Server: s.GetName(), ID: s.GetId(), Host: logins[s.GetId()], Result: "not tried"}
	}
	say := quietly(env)
	failed, err := each(ctx, found, cleanedAtOnce, func(s display.Server) error {
		o, err := f.cleanOne(ctx, env, s, logins[s.GetId()], say)
		rows[at[s.GetId()]].note(o, err) // each goroutine has a row of its own
		return err
	})
	if e := output.Show(env.Output, cleanedListing, cleanedList{rows}, rows); e != nil {
		return e
	}
	return concludeMany(ctx, env, len(found), failed, err, "the same command tries those that are still leaked")
}

// cleanOne cleans the machine of one server of several, and records the outcome.
func (f *cleanFlags) cleanOne(
	ctx context.Context, env *cli.Env, s display.Server, login string, say func(string, ...any),
) (ssh.Outcome, error) {
	dead, err := deadServer(ctx, env, s.GetId())
	if err != nil {
		return nil, err
	}
	host := f.host
	host.To = login
	o, err := host.Clean(ctx, ssh.CleanUp{
		Tombstone: dead.GetTombstone(), Timeout: f.timeout, DryRun: f.work.DryRun, Now: env.Now, Say: say,
	})
	if err != nil {
		return nil, err
	}
	if !o.GetDryRun() {
		q := &registryv1.RecordCleanUpRequest{Server: dead.GetId(), Via: "ssh " + login, Outcome: o}
		if _, err := cli.Call[*registryv1.RecordCleanUpResponse](ctx, env, q); err != nil {
			return o, err
		}
	}
	if r := o.GetRefusal(); r != nil {
		return o, cli.Refuse(fault.Unavailable, r)
	}
	return o, nil
}
