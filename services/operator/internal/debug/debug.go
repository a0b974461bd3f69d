// Package debug builds garrison debug, which prints the state of a process on the same machine over its debug socket.
package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/nearest"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// largestLimit is the largest number of rows of one table in one answer.
const largestLimit = 1000

// part is the name of one part of a process's state.
type part struct {
	Name string `json:"name"`
}

type partList struct {
	Parts []part `json:"parts"`
}

var table = listing.Listing[part]{
	Name:    func(p part) string { return p.Name },
	Columns: []listing.Column[part]{listing.Col("NAME", func(p part) string { return p.Name })},
}

// query selects rows of a view.
type query struct {
	noun, after string
	limit       int
}

// Command returns the command debug.
func Command(env *cli.Env) *cobra.Command {
	var q query
	c := &cobra.Command{
		Use:   "debug SOCKET [NAME]",
		Short: "Print the state of a process that runs with --debug-socket.",
		Long: "Print the names of the parts of a process's state, or one part as JSON. SOCKET is the value of the " +
			"process's flag --debug-socket; only the user of the process and root can open it.",
		Example: "  garrison debug /run/garrisond.debug\n" +
			"  garrison debug /run/garrisond.debug registry.view --noun server --limit 10",
		Args: func(c *cobra.Command, a []string) error {
			if len(a) == 0 {
				return cli.Exactly("SOCKET")(c, a)
			}
			return cli.AtMost("SOCKET", "NAME")(c, a)
		},
		RunE: func(c *cobra.Command, a []string) error {
			if len(a) == 1 {
				if q != (query{}) {
					return cli.Usage("garrison debug: --noun, --after and --limit need NAME. Try: garrison debug %s",
						listing.Quote(a[0]))
				}
				return printNames(c.Context(), env, a[0])
			}
			return printPart(c.Context(), env, a[0], a[1], q)
		},
	}
	cli.TextVar(c.Flags(), &q.noun, "noun", cli.NotEmpty("noun"), "print only this `NOUN` of a view")
	cli.TextVar(c.Flags(), &q.after, "after", cli.NotEmpty("key"), "continue a view after this `KEY`")
	cli.NumberVar(c.Flags(), &q.limit, "limit", "a whole number", largestLimit,
		"print at most this many `ROWS` of each table of a view")
	return c
}

func printNames(ctx context.Context, env *cli.Env, socket string) error {
	names, err := names(ctx, socket)
	if err != nil {
		return err
	}
	list := partList{Parts: []part{}}
	for _, n := range names {
		list.Parts = append(list.Parts, part{n})
	}
	return output.Show(env.Output, table, list, list.Parts)
}

// names returns the names of the parts that a process shows.
func names(ctx context.Context, socket string) ([]string, error) {
	paths, err := get(ctx, socket, "/")
	if err != nil {
		return nil, err
	}
	var out []string
	for path := range strings.Lines(string(paths)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(path), "/state/"); ok {
			out = append(out, name)
		}
	}
	return out, nil
}

func printPart(ctx context.Context, env *cli.Env, socket, name string, q query) error {
	data, err := get(ctx, socket, "/state/"+url.PathEscape(name)+"?"+q.encode())
	if fault.Is(err, fault.NotFound) {
		return unknown(ctx, socket, name)
	}
	if err != nil {
		return err
	}
	switch env.Output.Format {
	case output.FormatYAML:
		return env.Output.PrintDocument(output.FormatYAML, json.RawMessage(data))
	case output.FormatJSONL:
		line, err := output.Encode(json.RawMessage(data))
		if err == nil {
			_, err = fmt.Fprintf(env.Out, "%s\n", line)
		}
		return err
	}
	return env.Output.PrintDocument(output.FormatJSON, json.RawMessage(data))
}

func (q query) encode() string {
	v := url.Values{}
	if q.noun != "" {
		v.Set("noun", q.noun)
	}
	if q.after != "" {
		v.Set("after", q.after)
	}
	if q.limit != 0 {
		v.Set("limit", strconv.Itoa(q.limit))
	}
	return v.Encode()
}

// unknown returns the refusal of a name that the process does not show.
func unknown(ctx context.Context, socket, name string) error {
	names, err := names(ctx, socket)
	if err != nil {
		return err
	}
	return fault.Refusef(fault.NotFound, code.NotFound, "the process at %s shows no %q (%d names searched)", socket,
		name, len(names)).Near(nearest.Name(name, slices.Values(names))).Try("garrison debug " + listing.Quote(socket))
}

// get reads a path of a debug socket. Its errors name the remedy.
func get(ctx context.Context, socket, path string) ([]byte, error) {
	data, err := debug.Get(ctx, socket, path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fault.Refusef(fault.Denied, code.Denied, "only the user of the process and root can open %s",
			socket).Try("sudo garrison debug " + listing.Quote(socket))
	case fault.Is(err, fault.Unavailable) && ctx.Err() == nil:
		return nil, fault.Refusef(fault.Unavailable, code.Unavailable, "no process listens on %s", socket).
			Try("start the process with --debug-socket " + listing.Quote(socket))
	case fault.Is(err, fault.Invalid):
		return nil, fault.Refusef(fault.Invalid, code.Invalid, "%v", err).Try("garrison debug --help")
	}
	return data, err
}
