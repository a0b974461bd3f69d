package operator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"
)

// The formats of data.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatYAML  = "yaml"
	formatName  = "name"
)

var formats = []string{formatTable, formatWide, formatJSON, formatJSONL, formatYAML, formatName}

// outputFlags say how data is printed.
type outputFlags struct {
	format    string
	noHeaders bool
	columns   []string
	sort      string
}

func (o *outputFlags) add(f *pflag.FlagSet) {
	o.format = formatTable
	f.VarP(textValue(&o.format, oneOf("format", formats)), "output", "o", "`FORMAT`: "+strings.Join(formats, ", "))
	f.BoolVar(&o.noHeaders, "no-headers", false, "print tables without their first line")
	f.StringSliceVar(&o.columns, "columns", nil, "print these `COLUMNS` only, in this order")
	f.StringVar(&o.sort, "sort", "", "sort by this `COLUMN`; -COLUMN sorts downwards")
}

// isTable says whether a person reads.
func (o *outputFlags) isTable() bool { return o.format == formatTable || o.format == formatWide }

// view is what a column may know beside its row.
type view struct {
	at    time.Time         // now
	wide  bool              // whole ids and times
	names map[string]string // of servers, by id
}

func (s *session) view() view { return view{at: s.now(), wide: s.output.format == formatWide} }

// column is one column of a listing.
type column[T any] struct {
	title string
	wide  bool // only in the wide table
	value func(view, T) string
	key   func(T) string // sorts the column; nil means the printed value
	min   int            // the least width, for listings that are printed in parts
}

// listing says how rows of one type are printed.
type listing[T any] struct {
	name    func(T) string // what -o name prints
	columns []column[T]
}

// show prints a list: whole is what JSON shows, rows are its rows.
func show[T any](s *session, l listing[T], whole any, rows []T) error {
	return showIn(s, s.view(), l, whole, rows)
}

func showIn[T any](s *session, v view, l listing[T], whole any, rows []T) error {
	if err := sortRows(s.output.sort, v, l, rows); err != nil {
		return err
	}
	setRows(whole, rows)
	switch s.output.format {
	case formatJSON, formatYAML:
		return printDocument(s.out, s.output.format, whole)
	case formatJSONL:
		return printLines(s.out, rows)
	case formatName:
		for _, r := range rows {
			fmt.Fprintln(s.out, l.name(r))
		}
		return nil
	}
	columns, err := chosen(s.output.columns, v.wide, l.columns)
	if err != nil {
		return err
	}
	return printTable(s.out, v, columns, rows, !s.output.noHeaders)
}

// showOne prints one thing: for people every column on a line of its own.
func showOne[T any](s *session, v view, l listing[T], thing T, more ...[2]string) error {
	switch s.output.format {
	case formatJSON, formatYAML:
		return printDocument(s.out, s.output.format, thing)
	case formatJSONL:
		return printLines(s.out, []T{thing})
	case formatName:
		_, err := fmt.Fprintln(s.out, l.name(thing))
		return err
	}
	columns, err := chosen(s.output.columns, true, l.columns)
	if err != nil {
		return err
	}
	v.wide = true
	var lines [][2]string
	for _, c := range columns {
		lines = append(lines, [2]string{c.title, c.value(v, thing)})
	}
	if len(s.output.columns) == 0 {
		lines = append(lines, more...)
	}
	return printPairs(s.out, lines)
}

// changed prints a thing that was just made or changed, with a line of talk.
func changed[T any](s *session, l listing[T], thing T, format string, args ...any) error {
	s.say(format, args...)
	if !s.output.isTable() {
		return showOne(s, s.view(), l, thing)
	}
	return show(s, l, nil, []T{thing})
}

// chosen gives the columns that are asked for.
func chosen[T any](asked []string, wide bool, all []column[T]) ([]column[T], error) {
	if len(asked) == 0 {
		return slices.DeleteFunc(slices.Clone(all), func(c column[T]) bool { return c.wide && !wide }), nil
	}
	var out []column[T]
	for _, name := range asked {
		c, err := columnNamed("--columns", name, all)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func columnNamed[T any](flag, name string, all []column[T]) (column[T], error) {
	var titles []string
	for _, c := range all {
		if strings.EqualFold(c.title, name) {
			return c, nil
		}
		titles = append(titles, strings.ToLower(c.title))
	}
	return column[T]{}, usage("%s: there is no column %q (want %s)", flag, name, strings.Join(titles, ", "))
}

// sortRows sorts by a column; numbers as numbers.
func sortRows[T any](by string, v view, l listing[T], rows []T) error {
	if by == "" {
		return nil
	}
	name, down := strings.CutPrefix(by, "-")
	c, err := columnNamed("--sort", name, l.columns)
	if err != nil {
		return err
	}
	key := c.key
	if key == nil {
		key = func(t T) string { return c.value(v, t) }
	}
	slices.SortStableFunc(rows, func(a, b T) int {
		order := natural(key(a), key(b))
		if down {
			return -order
		}
		return order
	})
	return nil
}

func natural(a, b string) int {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	if errA == nil && errB == nil {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

// printTable prints columns that are two spaces apart, without lines and without colour.
func printTable[T any](w io.Writer, v view, columns []column[T], rows []T, headers bool) error {
	t := table.NewWriter()
	t.SetStyle(plain)
	t.SuppressTrailingSpaces()
	var configs []table.ColumnConfig
	var titles table.Row
	for i, c := range columns {
		titles = append(titles, c.title)
		configs = append(configs, table.ColumnConfig{Number: i + 1, WidthMin: c.min})
	}
	t.SetColumnConfigs(configs)
	if headers {
		t.AppendHeader(titles)
	}
	for _, r := range rows {
		var cells table.Row
		for _, c := range columns {
			cells = append(cells, cell(c.value(v, r)))
		}
		t.AppendRow(cells)
	}
	if text := t.Render(); text != "" {
		_, err := fmt.Fprintln(w, text)
		return err
	}
	return nil
}

// cell keeps a value on one line, and a column in its place when the value is empty.
func cell(s string) string {
	return cmp.Or(strings.Join(strings.Fields(visible(s)), " "), "-")
}

// visible takes out what would steer the terminal: values come from servers.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
}

var plain = table.Style{
	Name:    "plain",
	Box:     table.BoxStyle{PaddingRight: "  "},
	Format:  table.FormatOptions{},
	Options: table.OptionsNoBordersAndSeparators,
}

// printPairs prints titles and values, one pair a line; the lines of a value are indented.
func printPairs(w io.Writer, pairs [][2]string) error {
	width := 0
	for _, p := range pairs {
		width = max(width, len(p[0]))
	}
	var b strings.Builder
	for _, p := range pairs {
		lines := strings.Split(strings.TrimRight(visible(p[1]), "\n"), "\n")
		fmt.Fprintf(&b, "%-*s  %s\n", width, p[0], cmp.Or(lines[0], "-"))
		for _, line := range lines[1:] {
			fmt.Fprintf(&b, "%-*s  %s\n", width, "", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// encode gives a value as compact JSON with stable spacing.
func encode(value any) ([]byte, error) {
	m, ok := value.(proto.Message)
	if !ok {
		return json.Marshal(value)
	}
	// An empty list is printed as one, so that a script can go over it.
	data, err := protojson.MarshalOptions{EmitDefaultValues: isEmptyList(m)}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Compact(&b, data) // protojson varies its spacing on purpose
	return b.Bytes(), err
}

func printDocument(w io.Writer, format string, value any) error {
	data, err := encode(value)
	if err != nil {
		return err
	}
	if format == formatYAML {
		if data, err = yaml.JSONToYAML(data); err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, b.String())
	return err
}

func printLines[T any](w io.Writer, rows []T) error {
	for _, r := range rows {
		data, err := encode(r)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", data); err != nil {
			return err
		}
	}
	return nil
}

// rowsField gives the one repeated field of a list response, or nil.
func rowsField(m protoreflect.Message) protoreflect.FieldDescriptor {
	fields := m.Descriptor().Fields()
	if fields.ByName("next_cursor") == nil {
		return nil
	}
	for i := fields.Len() - 1; i >= 0; i-- { // what describes the rows comes before them
		if fields.Get(i).IsList() {
			return fields.Get(i)
		}
	}
	return nil
}

func isEmptyList(m proto.Message) bool {
	f := rowsField(m.ProtoReflect())
	return f != nil && m.ProtoReflect().Get(f).List().Len() == 0
}

// rowsOf gives the rows of a list response.
func rowsOf[T proto.Message](whole proto.Message) []T {
	list := whole.ProtoReflect().Get(rowsField(whole.ProtoReflect())).List()
	rows := make([]T, list.Len())
	for i := range rows {
		rows[i] = list.Get(i).Message().Interface().(T)
	}
	return rows
}

// setRows puts rows, sorted or cut, back into a list response.
func setRows[T any](whole any, rows []T) {
	m, ok := whole.(proto.Message)
	if !ok {
		return
	}
	f := rowsField(m.ProtoReflect())
	if f == nil {
		return
	}
	list := m.ProtoReflect().Mutable(f).List()
	list.Truncate(0)
	for _, r := range rows {
		list.Append(protoreflect.ValueOfMessage(any(r).(proto.Message).ProtoReflect()))
	}
}

// showToken prints a token alone, so that it can be kept in a file.
func showToken(s *session, r interface {
	proto.Message
	GetToken() string
}) error {
	switch s.output.format {
	case formatJSON, formatYAML:
		return printDocument(s.out, s.output.format, r)
	case formatJSONL:
		return printLines(s.out, []proto.Message{r})
	}
	_, err := fmt.Fprintln(s.out, r.GetToken())
	return err
}
