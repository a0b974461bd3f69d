package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// CountFlags ask for numbers instead of a list.
type CountFlags struct {
	By    []string
	Top   uint32
	count bool
}

// mostGroups is the largest number of groups that a service returns.
const mostGroups = 1000

// Add adds --count, --count-by and --top.
func (f *CountFlags) Add(c *cobra.Command, fields string) {
	c.Flags().BoolVar(&f.count, "count", false, "print how many rows there are instead of the rows")
	NamesVar(c.Flags(), &f.By, "count-by", NotEmpty("field"), "print how many rows there are for each combination of "+
		"the values of these `FIELDS`, four at most, instead of the rows: "+fields)
	LimitVar(c.Flags(), &f.Top, "top", 100, "with --count-by, print this many `GROUPS`, the largest, and count the "+
		"others together; or all, which means 1,000")
}

// Asked reports whether numbers are asked for. It returns a usage error when flags contradict each other.
func (f *CountFlags) Asked(c *cobra.Command) (bool, error) {
	asked := f.count || len(f.By) > 0
	if c.Flags().Changed("top") && len(f.By) == 0 {
		return asked, Usage("--top needs --count-by")
	}
	for _, other := range []string{"limit", "cursor"} {
		if asked && c.Flags().Changed(other) {
			return asked, Usage("--count and --%s exclude each other: a count has one part", other)
		}
	}
	return asked, nil
}

// Groups returns how many groups to ask for.
func (f *CountFlags) Groups() uint32 {
	if f.Top == 0 {
		return mostGroups
	}
	return f.Top
}

// ShowCounts prints numbers: a row for each group, or the total alone.
func ShowCounts(env *Env, answer proto.Message, counts *registryv1.Counts) error {
	groups := counts.GetGroups()
	if len(counts.GetBy()) == 0 {
		groups = []*registryv1.CountGroup{{Count: counts.GetTotal()}}
	}
	var whole any = answer
	if err := output.Show(env.Output, countListing(counts), whole, groups); err != nil {
		return err
	}
	if counts.GetOtherGroups() > 0 {
		env.Say("%d more rows in %s are not shown; raise --top", counts.GetOthers(),
			output.Plural(int(counts.GetOtherGroups()), "group"))
	}
	return nil
}

// countListing returns the columns of groups: the fields, and how many rows there are.
func countListing(counts *registryv1.Counts) output.Listing[*registryv1.CountGroup] {
	l := output.Listing[*registryv1.CountGroup]{
		Name: func(g *registryv1.CountGroup) string {
			return fmt.Sprint(strings.Join(append(g.GetValues(), fmt.Sprint(g.GetCount())), " "))
		},
	}
	for n, field := range counts.GetBy() {
		title := strings.ToUpper(field)
		l.Columns = append(l.Columns, output.Col(title, func(g *registryv1.CountGroup) string {
			return g.GetValues()[n]
		}))
	}
	l.Columns = append(l.Columns, output.Col("COUNT", func(g *registryv1.CountGroup) string {
		return fmt.Sprint(g.GetCount())
	}).Numeric())
	return l
}
