package cli

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/record"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// LargestPart is the largest number of rows in one response of a service.
const LargestPart = 1000

// PageFlags select a part of a list.
type PageFlags struct {
	Limit  uint32
	cursor string
}

// Add adds --limit and --cursor.
func (p *PageFlags) Add(c *cobra.Command, limit uint32) {
	LimitVar(c.Flags(), &p.Limit, "limit", limit, "print at most this many `ROWS`, or all")
	TextVar(c.Flags(), &p.cursor, "cursor", NotEmpty("cursor"), "continue at this `CURSOR`, which the previous "+
		"part ended with")
}

// part is a service's response with one part of a list.
type part interface {
	proto.Message
	GetNextCursor() string
}

// Collect reads a list part by part, up to its end or the limit, and returns it as one response.
func Collect[R part](ctx context.Context, p PageFlags, ask func(context.Context, *apiv1.Page) (R, error)) (R, error) {
	var whole R
	err := eachPart(ctx, p, ask, func(r R) error {
		whole = join(whole, r)
		return nil
	})
	return whole, err
}

// All reads the whole list that a request asks for; it has a field page.
func All[R part](ctx context.Context, env *Env, q proto.Message) (R, error) {
	return Collect(ctx, PageFlags{}, Ask[R](env, q))
}

// Ask returns what asks for a part of a list with a request, which has a field page.
func Ask[R proto.Message](env *Env, q proto.Message) func(context.Context, *apiv1.Page) (R, error) {
	return func(ctx context.Context, p *apiv1.Page) (R, error) {
		m := q.ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName("page"), protoreflect.ValueOfMessage(p.ProtoReflect()))
		return Call[R](ctx, env, q)
	}
}

// eachPart reads a list part by part, up to its end or the limit, and calls take with each.
func eachPart[R part](
	ctx context.Context, p PageFlags, ask func(context.Context, *apiv1.Page) (R, error), take func(R) error,
) error {
	for have, cursor := 0, p.cursor; ; {
		limit := uint32(LargestPart)
		if p.Limit > 0 {
			limit = min(limit, p.Limit-uint32(have))
		}
		r, err := ask(ctx, &apiv1.Page{Limit: limit, Cursor: cursor})
		if err != nil {
			return err
		}
		if err := take(r); err != nil {
			return err
		}
		have += r.ProtoReflect().Get(page.RowsField(r.ProtoReflect())).List().Len()
		again := r.GetNextCursor() == cursor // guards against a service that repeats a cursor
		cursor = r.GetNextCursor()
		if cursor == "" || again || p.Limit > 0 && have >= int(p.Limit) {
			return nil
		}
	}
}

// join appends a part to the whole and takes over its cursor.
func join[R part](whole, r R) R {
	if !whole.ProtoReflect().IsValid() {
		return r
	}
	proto.Merge(whole, r)
	f := whole.ProtoReflect().Descriptor().Fields().ByName("next_cursor")
	whole.ProtoReflect().Set(f, protoreflect.ValueOfString(r.GetNextCursor()))
	return whole
}

// List reads a list and prints it: part by part where the format allows it, so that a long one takes no memory.
func List[T proto.Message, R part](
	ctx context.Context,
	env *Env,
	p PageFlags,
	l listing.Listing[T],
	ask func(context.Context, *apiv1.Page) (R, error),
) error {
	if env.Output.InParts() {
		return listParts(ctx, env, p, l, ask)
	}
	whole, err := Collect(ctx, p, ask)
	if err != nil {
		return err
	}
	if err := output.Show(env.Output, l, whole, output.RowsOf[T](whole)); err != nil {
		return err
	}
	SayMore(env, whole)
	SayEmpty(env, len(output.RowsOf[T](whole)))
	return nil
}

// SayEmpty says that a table without rows is no mistake of the view.
func SayEmpty(env *Env, rows int) {
	if rows == 0 && env.Empty != "" && env.Output.IsTable() {
		env.Say("%s", env.Empty)
	}
}

// ListCommand returns the verb list of a noun whose list takes no filter.
func ListCommand[R part, T proto.Message](
	env *Env, noun, short string, l listing.Listing[T], q proto.Message,
) *cobra.Command {
	var page PageFlags
	c := &cobra.Command{
		Use: "list", Example: "  garrison " + noun + " list", Short: short, Args: Exactly(),
		RunE: func(c *cobra.Command, _ []string) error { return List(c.Context(), env, page, l, Ask[R](env, q)) },
	}
	page.Add(c, 0)
	return c
}

func listParts[T proto.Message, R part](
	ctx context.Context,
	env *Env,
	p PageFlags,
	l listing.Listing[T],
	ask func(context.Context, *apiv1.Page) (R, error),
) error {
	var last R
	rows := 0
	printed := output.NewParts(env.Output, env.Output.View(), l)
	err := eachPart(ctx, p, ask, func(r R) error {
		last = r
		sayLeftOut(env, r)
		rows += len(output.RowsOf[T](r))
		return printed.Show(output.RowsOf[T](r))
	})
	if err == nil {
		sayCursor(env, last)
		SayEmpty(env, rows)
	}
	return err
}

// SayMore prints which rows were too large to be listed, and how to read the rest of a list.
func SayMore(env *Env, whole part) {
	sayLeftOut(env, whole)
	sayCursor(env, whole)
}

func sayLeftOut(env *Env, of part) {
	if left, ok := of.(interface{ GetLeftOut() []*apiv1.LeftOut }); ok {
		for _, l := range left.GetLeftOut() {
			env.Say("left out %s: its row has %d bytes and fits into no answer", listing.Quote(l.Id), l.SizeBytes)
		}
	}
}

func sayCursor(env *Env, of part) {
	if of.GetNextCursor() != "" {
		env.Say("more: --cursor %s", listing.Quote(of.GetNextCursor()))
	}
}

// Changed prints a message and the row of an object that was created or changed.
func Changed[T any](env *Env, l listing.Listing[T], thing T, format string, args ...any) error {
	env.Say(format, args...)
	return ShowRow(env, l, thing)
}

// ShowRow prints one object as a table of one row, and whole in the other formats.
func ShowRow[T any](env *Env, l listing.Listing[T], thing T) error {
	if !env.Output.IsTable() {
		return output.ShowOne(env.Output, env.Output.View(), l, thing)
	}
	return output.Show(env.Output, l, nil, []T{thing})
}

// Outcome returns what was done to an object, and that nothing changed when it was so before.
func Outcome(same bool, done string) string {
	if same {
		return done + " already; nothing changed"
	}
	return done
}

// Deleted prints that an object was deleted, unless err is set.
func Deleted(env *Env, noun, name string, err error) error {
	if err == nil {
		env.Say("%s %s deleted", noun, name)
	}
	return err
}

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
		"others together; all means 1,000")
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

// Count asks for numbers and prints them.
func Count[R interface {
	proto.Message
	GetCounts() *registryv1.Counts
}](ctx context.Context, env *Env, q proto.Message) error {
	r, err := Call[R](ctx, env, q)
	if err != nil {
		return err
	}
	return ShowCounts(env, r, r.GetCounts())
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
			listing.Plural(int(counts.GetOtherGroups()), "group"))
	}
	return nil
}

// countListing returns the columns of groups: the fields, and how many rows there are.
func countListing(counts *registryv1.Counts) listing.Listing[*registryv1.CountGroup] {
	l := listing.Listing[*registryv1.CountGroup]{
		Name: func(g *registryv1.CountGroup) string {
			return fmt.Sprint(strings.Join(append(g.GetValues(), fmt.Sprint(g.GetCount())), " "))
		},
	}
	for n, field := range counts.GetBy() {
		title := strings.ToUpper(field)
		l.Columns = append(l.Columns, listing.Col(title, func(g *registryv1.CountGroup) string {
			return g.GetValues()[n]
		}))
	}
	l.Columns = append(l.Columns, listing.Col("COUNT", func(g *registryv1.CountGroup) string {
		return fmt.Sprint(g.GetCount())
	}).Numeric())
	return l
}

// Put creates or changes a record, and returns it as recorded, with the instances that it would configure otherwise.
func Put[T proto.Message](
	ctx context.Context, env *Env, q *registryv1.PutRecordRequest,
) (T, []*registryv1.Outdated, error) {
	r, err := Call[*registryv1.PutRecordResponse](ctx, env, q)
	return record.As[T](r.GetRecord()), r.GetOutdated(), err
}

// Delete deletes records, and returns them as they were.
func Delete[T proto.Message](ctx context.Context, env *Env, q *registryv1.DeleteRecordRequest) ([]T, error) {
	r, err := Call[*registryv1.DeleteRecordResponse](ctx, env, q)
	var out []T
	for _, was := range r.GetRecords() {
		out = append(out, record.As[T](was))
	}
	return out, err
}

// Records returns all records that a request lists.
func Records[T proto.Message](ctx context.Context, env *Env, q *registryv1.ListRecordsRequest) ([]T, error) {
	r, err := All[*registryv1.ListRecordsResponse](ctx, env, q)
	if err != nil {
		return nil, err
	}
	return output.RowsOf[T](r), nil
}

// Differences is everything in which two objects of a kind differ.
type Differences[T any] struct {
	First       string `json:"first"`
	Second      string `json:"second"`
	Differences []T    `json:"differences"`
}

// Show prints the differences, or same when there are none. It returns the exit that says that there are some.
func (d Differences[T]) Show(env *Env, l listing.Listing[T], same string) error {
	if len(d.Differences) == 0 {
		env.Say(same, d.First, d.Second)
		if env.Output.IsTable() {
			return nil
		}
		d.Differences = []T{}
	}
	if err := output.Show(env.Output, l, d, d.Differences); err != nil || len(d.Differences) == 0 {
		return err
	}
	return Ended(ExitDifferent)
}

// Unknown refuses a name that none of some objects has, with the nearest one of theirs. have says what was searched.
func Unknown(code, have, name string, names iter.Seq[string], try string) error {
	return fault.Refusef(fault.NotFound, code, "%s %.80q (%d searched)", have, name, len(slices.Collect(names))).
		Near(nearest.Name(name, names)).Try(try)
}
