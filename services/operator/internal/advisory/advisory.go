// Package advisory builds the commands of garrison advisory: what is known of vulnerable packages.
package advisory

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	osv "github.com/garrison-fleet/garrison/pkg/advisory"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/regular"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

type source = *catalogv1.AdvisorySource

var table = listing.Listing[source]{
	Name: source.GetName,
	Columns: []listing.Column[source]{
		listing.Col("SOURCE", source.GetName),
		listing.Col("ADVISORIES", func(s source) string { return fmt.Sprint(s.GetAdvisories()) }).Numeric(),
		listing.Since("AGE", source.GetImportedAt),
	},
}

// Commands returns the command advisory with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("advisory", "Import advisories, with which garrison exposed finds vulnerable packages.",
		cli.ListCommand[*catalogv1.ListAdvisoriesResponse](env, "advisory", "List the sources of advisories, with the "+
			"number and the age of what was imported.", table, &catalogv1.ListAdvisoriesRequest{}),
		importCommand(env))
}

func importCommand(env *cli.Env) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:     "import FILE",
		Example: "  garrison advisory import osv.json\n  garrison advisory import osv.json --source go",
		Short:   "Import advisories in the OSV format; they replace those of the source.",
		Long: `Import advisories in the OSV format: a JSON document, a list of them, or a zip archive of JSON files, as
osv.dev exports them for each ecosystem. Kept are id, aliases, summary, severity and which versions of which packages
are affected; what was withdrawn, or names commits only, is left out. All of it replaces what the source had before. A
record that cannot be read is named, and the others are imported.

A file has at most 200,000 records of 8 MiB and 2 GiB unpacked. The catalog keeps 16 sources, and 128 MiB of all.`,
		Args: cli.Exactly("FILE"), PreRunE: cli.Prints(env, table),
		RunE: func(c *cobra.Command, a []string) error {
			if err := cli.CheckPath(a[0], "garrison advisory import --help"); err != nil {
				return err
			}
			q := &catalogv1.ImportAdvisoriesRequest{Source: name}
			if q.Source == "" {
				base := filepath.Base(a[0])
				q.Source = strings.ToLower(strings.TrimSuffix(base, filepath.Ext(base)))
				if err := ident.CheckName("source", q.Source); err != nil {
					return cli.Usage("%v. Try: garrison advisory import %s --source NAME", err, listing.Quote(a[0]))
				}
			}
			read, err := readFile(a[0])
			if err != nil {
				return err
			}
			return importAll(c.Context(), env, q, read)
		},
	}
	cli.TextVar(c.Flags(), &name, "source", cli.Name("source"), "the `NAME` of the source (default: that of the file)")
	return c
}

func readFile(path string) (*osv.Export, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	read, err := osv.Read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return read, nil
}

const (
	partBytes  = 256 << 10 // of a part, unless it is one advisory
	mostBytes  = 896 << 10 // of one advisory
	mostFaults = 20        // that are printed
)

// importAll sends the advisories part by part, and says what was left out.
func importAll(
	ctx context.Context, env *cli.Env, q *catalogv1.ImportAdvisoriesRequest, read *osv.Export,
) error {
	parts := partsOf(read)
	for _, text := range read.Faults[:min(len(read.Faults), mostFaults)] {
		env.Say("left out: %s", text)
	}
	if more := len(read.Faults) - mostFaults; more > 0 {
		env.Say("left out: %d more records", more)
	}
	counts := fmt.Sprintf("%s of source %s (%d left out, %d withdrawn)",
		listing.Plural(count(parts), "advisory record"), q.Source, len(read.Faults), read.Withdrawn)
	line := env.Live()
	defer line.End()
	q.Parts = uint32(len(parts))
	for n, part := range parts {
		line.Set("sending %s %d of %s", listing.Bar(uint64(n), uint64(len(parts))), n,
			listing.Plural(len(parts), "part"))
		q.Part, q.Advisories = uint32(n), part
		r, err := cli.Call[*catalogv1.ImportAdvisoriesResponse](ctx, env, q)
		if errors.Is(err, client.ErrDryRun) {
			cli.Foresee(env, "import "+counts)
		}
		if err != nil {
			return err
		}
		if q.Upload = r.GetUpload(); r.GetSource() != nil {
			line.End()
			return cli.Changed(env, table, r.GetSource(), "imported %s", counts)
		}
	}
	return errors.New("the image-catalog did not confirm the import. Try: garrison advisory list")
}

// partsOf cuts advisories into parts, of which there is one at least. One that is too large becomes a fault.
func partsOf(read *osv.Export) (parts [][]*catalogv1.Advisory) {
	var part []*catalogv1.Advisory
	sum := 0
	for _, a := range read.Advisories {
		size := proto.Size(a)
		if size > mostBytes {
			read.Faults = append(read.Faults,
				fmt.Sprintf("%s: what is kept of it has %d bytes, want at most %d", a.Id, size, mostBytes))
			continue
		}
		if sum+size > partBytes && len(part) > 0 {
			parts, part, sum = append(parts, part), nil, 0
		}
		part, sum = append(part, a), sum+size
	}
	return append(parts, part)
}

func count(parts [][]*catalogv1.Advisory) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}
