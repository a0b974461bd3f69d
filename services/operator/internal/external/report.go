package external

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// maxReport bounds the text of a report, and maxRows its rows.
const (
	maxReport = 256 << 20
	maxRows   = 200_000
)

// line is one instance of a report.
type line struct {
	Name       string            `json:"name"`
	Server     string            `json:"server"`
	Version    string            `json:"version"`
	Digest     string            `json:"digest"`
	Health     string            `json:"health"`
	Reason     string            `json:"reason"`
	Properties map[string]string `json:"properties"`
}

// ReportCommand returns the command instance report.
func ReportCommand(env *cli.Env) *cobra.Command {
	var file string
	var complete, empty bool
	c := &cobra.Command{
		Use:   "report AGENT",
		Short: "Report instances of an agent of kind external.",
		Long: `Report instances of an agent of kind external: virtual machines, platform images, appliances. The
user must be the agent's reporter. The report is JSON, one object an instance, on standard input or in a file:

  {"name": "7b1c…", "server": "web-1", "version": "7", "properties": {"brand": "lx"}}

  name        letters, digits, dashes and underscores, at most 63; unique for the agent
  server      where it is: an id, a unique prefix of one, or a name; empty when it is on no server of the fleet
  version     at most 128 bytes
  digest      sha256 of what it was made of, in hexadecimal; may be empty
  health      good (default) or bad
  reason      why it is bad; at most 512 bytes
  properties  at most 16 further texts, of 64 and 256 bytes

Only differences are recorded, so the same report can be sent every minute. With --complete, the report lists all there
is, and recorded instances that it does not list are gone; without it, nothing goes. Send such a report only when the
program that lists them has succeeded.`,
		Example: "  list-vms > vms && garrison instance report vm --complete --from vms\n" +
			"  garrison instance report appliance --from appliances.json",
		Args: cli.Exactly("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			found, err := read(env, file)
			if err != nil {
				return err
			}
			if complete && len(found) == 0 && !empty {
				return cli.Usage("the report is empty, and every recorded instance would be gone. Did the program " +
					"that lists them fail? If there are none: --empty")
			}
			return report(c.Context(), env, a[0], found, complete)
		},
	}
	cli.TextVar(c.Flags(), &file, "from", cli.NotEmpty("file"), "read the report from this `FILE`")
	c.Flags().BoolVar(&empty, "empty", false, "with --complete: there are none, so all that are recorded are gone")
	c.Flags().BoolVar(&complete, "complete", false, "instances that the report does not list are gone")
	return c
}

// read reads a report. Nothing is sent of one with a mistake: with --complete, half a report would end the other half.
func read(env *cli.Env, file string) ([]*externalv1.Found, error) {
	text, err := env.ReadInput(cmp.Or(file, "-"), maxReport+1)
	if err != nil {
		return nil, cli.Usage("%v", err)
	}
	if len(text) > maxReport {
		return nil, cli.Usage("the report has more than %d MiB", maxReport>>20)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var found []*externalv1.Found
	for n := 1; ; n++ {
		x := line{Health: "good"}
		if err := d.Decode(&x); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, cli.Usage("object %d of the report, near byte %d: %v", n, d.InputOffset(), err)
		}
		f, err := x.found()
		if err != nil {
			return nil, cli.Usage("object %d of the report: %v", n, err)
		}
		if found = append(found, f); n > maxRows {
			return nil, cli.Usage("the report lists more than %d instances", maxRows)
		}
	}
}

func (x line) found() (*externalv1.Found, error) {
	health, ok := map[string]instancev1.Health{
		"good": instancev1.Health_HEALTH_GOOD, "bad": instancev1.Health_HEALTH_BAD,
	}[x.Health]
	if !ok {
		return nil, fmt.Errorf("health %s; want good or bad", listing.Quote(x.Health))
	}
	digest, err := hex.DecodeString(x.Digest)
	if err != nil {
		return nil, fmt.Errorf("digest: %w", err)
	}
	return &externalv1.Found{
		Name: x.Name, Server: x.Server, Version: x.Version, Digest: digest, Health: health, Reason: x.Reason,
		Properties: x.Properties,
	}, nil
}

// report sends a report and prints what it changed. The exit code is 5 when some instances were not recorded.
func report(ctx context.Context, env *cli.Env, agent string, found []*externalv1.Found, complete bool) error {
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	r, err := c.ReportExternal(ctx, agent, found, complete)
	if err != nil {
		return err
	}
	for _, l := range r.LeftOut {
		env.Say("left out %s: %s", listing.Quote(l.Name), fault.Line(l.Refusal))
	}
	env.Say("%s: %d changed, %d as recorded, %d gone", agent, r.Changed, r.Confirmed, r.Gone)
	if n := len(r.LeftOut); n > 0 {
		return cli.Exit{Code: cli.ExitPartly, Err: fmt.Errorf("garrison: %s: %s not recorded", code.Invalid,
			listing.Plural(n, "instance"))}
	}
	return nil
}
