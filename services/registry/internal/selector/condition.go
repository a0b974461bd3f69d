package selector

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const labelPrefix = "label."

// fields are the fields that a condition may compare, besides labels. An empty value is unknown.
var fields = map[string]func(*serverv1.Server) string{
	"name":         func(s *serverv1.Server) string { return s.GetName() },
	"env":          func(s *serverv1.Server) string { return cmp.Or(s.GetEnvironment(), environment.None) },
	"cell":         func(s *serverv1.Server) string { return s.GetCell() },
	"presence":     presence,
	"platform":     platform,
	"os":           func(s *serverv1.Server) string { return s.GetSysinfo().GetPlatform().GetOs() },
	"arch":         func(s *serverv1.Server) string { return s.GetSysinfo().GetPlatform().GetArch() },
	"hostname":     func(s *serverv1.Server) string { return s.GetSysinfo().GetHostname() },
	"kernel":       func(s *serverv1.Server) string { return s.GetSysinfo().GetKernel() },
	"distribution": func(s *serverv1.Server) string { return s.GetSysinfo().GetDistribution() },
	"cpus":         func(s *serverv1.Server) string { return number(uint64(s.GetSysinfo().GetProcessors())) },
	"memory":       func(s *serverv1.Server) string { return number(s.GetSysinfo().GetMemoryBytes()) },
	"executor":     func(s *serverv1.Server) string { return s.GetSysinfo().GetExecutorVersion() },
}

// orders compare two values of a field that has an order; ok is false when one cannot be read.
var orders = map[string]func(a, b string) (order int, ok bool){
	"cpus": byNumber, "memory": byNumber, "executor": byVersion,
}

func presence(s *serverv1.Server) string {
	if s.GetPresence() == serverv1.Presence_PRESENCE_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(s.Presence.String(), "PRESENCE_"))
}

func platform(s *serverv1.Server) string {
	p := s.GetSysinfo().GetPlatform()
	if p.GetOs() == "" {
		return ""
	}
	return p.Os + "/" + p.Arch
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// units are the suffixes of a number.
var units = []struct {
	suffix string
	factor float64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

func parseNumber(s string) (float64, bool) {
	for _, u := range units {
		if digits, ok := strings.CutSuffix(s, u.suffix); ok {
			n, err := strconv.ParseFloat(digits, 64)
			return n * u.factor, err == nil && n >= 0
		}
	}
	return 0, false
}

func byNumber(a, b string) (int, bool) {
	x, ok := parseNumber(a)
	y, fine := parseNumber(b)
	return cmp.Compare(x, y), ok && fine
}

func byVersion(a, b string) (int, bool) {
	x, err := semver.NewVersion(a)
	y, e := semver.NewVersion(b)
	if err != nil || e != nil {
		return 0, false
	}
	return x.Compare(y), true
}

// valueOf returns a field of a server; ok is false when it is unknown or missing.
func valueOf(s *serverv1.Server, field string) (value string, ok bool) {
	if label, is := strings.CutPrefix(field, labelPrefix); is {
		value, ok = s.GetLabels()[label]
		return value, ok
	}
	if f, is := fields[field]; is {
		value = f(s)
	}
	return value, value != ""
}

// meets reports whether a server meets a condition that checkCondition accepted.
func meets(s *serverv1.Server, c *intentv1.Condition) bool {
	have, ok := valueOf(s, c.Field)
	return meetsValue(c, have, ok)
}

// meetsValue reports whether a value of the condition's field meets it; ok is false when the value is unknown.
func meetsValue(c *intentv1.Condition, have string, ok bool) bool {
	if c.Operator == intentv1.Operator_OPERATOR_NOT_IN {
		return !ok || !slices.ContainsFunc(c.Values, func(v string) bool { return same(c.Field, have, v) })
	}
	if !ok {
		return false
	}
	if c.Operator == intentv1.Operator_OPERATOR_IN {
		return slices.ContainsFunc(c.Values, func(v string) bool { return same(c.Field, have, v) })
	}
	order, ok := orders[c.Field](have, c.Values[0])
	switch {
	case !ok:
		return false // such as an executor without a version
	case c.Operator == intentv1.Operator_OPERATOR_LESS:
		return order < 0
	case c.Operator == intentv1.Operator_OPERATOR_AT_MOST:
		return order <= 0
	case c.Operator == intentv1.Operator_OPERATOR_MORE:
		return order > 0
	}
	return order >= 0
}

// same reports whether two values of a field are equal. Numbers and versions are compared as such, so
// that 1GiB equals 1024MiB and v1.2.0 equals 1.2.0.
func same(field, a, b string) bool {
	if a == b {
		return true
	}
	if order, is := orders[field]; is {
		n, ok := order(a, b)
		return ok && n == 0
	}
	return false
}

// checkCondition refuses a condition that cannot be evaluated.
func checkCondition(r Reader, c *intentv1.Condition) *apiv1.Refusal {
	label, isLabel := strings.CutPrefix(c.GetField(), labelPrefix)
	_, known := fields[c.GetField()]
	text := conditionText(c)
	switch {
	case !known && (!isLabel || label == ""):
		refusal := badSelector(fmt.Sprintf("%s: no field %q (known: %s, label.NAME)", text, c.GetField(),
			strings.Join(slices.Sorted(maps.Keys(fields)), ", ")), "garrison server show SERVER")
		refusal.Nearest = nearest.Name(c.GetField(), maps.Keys(fields))
		return refusal
	case len(c.Values) == 0 || slices.Contains(c.Values, ""):
		return badSelector(text+": the value is missing", "NAME=VALUE, or NAME in (VALUE,VALUE)")
	case c.Field == "presence" && slices.Contains(c.Values, "late"): // each registry must decide an intent the same
		return badSelector(text+": a selector compares the recorded presence, and a late server is recorded as "+
			"online until it is offline", "garrison server list --presence late; presence=online")
	case c.Field == "presence":
		if why := unknownPresences(text, c.Values); why != nil {
			return why
		}
	}
	switch {
	case c.Operator == intentv1.Operator_OPERATOR_IN, c.Operator == intentv1.Operator_OPERATOR_NOT_IN:
		return unknownEnvironments(r, c)
	case c.Operator == intentv1.Operator_OPERATOR_UNSPECIFIED:
		return badSelector(text+": the operator is missing", "NAME=VALUE")
	case len(c.Values) > 1:
		return badSelector(text+": an ordering operator takes one value", "NAME>=VALUE")
	}
	order, ordered := orders[c.Field]
	if !ordered {
		why := fmt.Sprintf("%s: %s has no order; cpus, memory and executor have one", text, c.Field)
		return badSelector(why, "NAME=VALUE")
	}
	if _, ok := order(c.Values[0], c.Values[0]); !ok {
		return badSelector(fmt.Sprintf("%s: %q cannot be compared with %s", text, c.Values[0], c.Field),
			"cpus>=8, memory>=16GiB or executor<1.4.0")
	}
	return nil
}

// unknownPresences refuses a value that the presence of no server has.
func unknownPresences(text string, values []string) *apiv1.Refusal {
	presences := []string{
		presence(&serverv1.Server{Presence: serverv1.Presence_PRESENCE_ONLINE}),
		presence(&serverv1.Server{Presence: serverv1.Presence_PRESENCE_OFFLINE}),
	}
	for _, v := range values {
		if !slices.Contains(presences, v) {
			why := fmt.Sprintf("%s: no presence %q (known: %s)", text, v, strings.Join(presences, ", "))
			refusal := badSelector(why, "garrison server list --presence online")
			refusal.Nearest = nearest.Name(v, slices.Values(presences))
			return refusal
		}
	}
	return nil
}

// unknownEnvironments refuses a condition on an unknown environment.
func unknownEnvironments(r Reader, c *intentv1.Condition) *apiv1.Refusal {
	if c.Field != "env" {
		return nil
	}
	for _, e := range c.Values {
		if !environmentKnown(r, e) {
			return UnknownEnvironment(r, e)
		}
	}
	return nil
}

func badSelector(message, try string) *apiv1.Refusal {
	return &apiv1.Refusal{Code: code.BadSelector, Message: message, Try: try}
}

// symbols are the operators in text form.
var symbols = map[intentv1.Operator]string{
	intentv1.Operator_OPERATOR_IN: "=", intentv1.Operator_OPERATOR_NOT_IN: "!=",
	intentv1.Operator_OPERATOR_LESS: "<", intentv1.Operator_OPERATOR_AT_MOST: "<=",
	intentv1.Operator_OPERATOR_MORE: ">", intentv1.Operator_OPERATOR_AT_LEAST: ">=",
}

// conditionText returns a condition as text.
func conditionText(c *intentv1.Condition) string {
	field := strings.TrimPrefix(c.GetField(), labelPrefix)
	if len(c.GetValues()) == 1 {
		return field + cmp.Or(symbols[c.GetOperator()], " ? ") + c.Values[0]
	}
	word := " in ("
	if c.GetOperator() == intentv1.Operator_OPERATOR_NOT_IN {
		word = " not in ("
	}
	return field + word + strings.Join(c.GetValues(), ",") + ")"
}

// fieldNames are the names of the fields.
var fieldNames = func() map[string]bool {
	names := map[string]bool{}
	for field := range fields {
		names[field] = true
	}
	return names
}()

// nearestTo returns the nearest match for a condition that no server meets: the name of a field or label, or a value
// that servers have.
func nearestTo(c *intentv1.Condition, servers []*serverv1.Server) string {
	names, values := map[string]bool{}, map[string]bool{}
	for _, s := range servers {
		for label := range s.Labels {
			names[label] = true
		}
		if v, ok := valueOf(s, c.Field); ok {
			values[v] = true
		}
	}
	if label, is := strings.CutPrefix(c.Field, labelPrefix); is && !names[label] {
		maps.Copy(names, fieldNames)
		return nearest.Name(label, keys(names))
	}
	return nearest.Name(c.Values[0], keys(values))
}

func keys(m map[string]bool) iter.Seq[string] { return maps.Keys(m) }
