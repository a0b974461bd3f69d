package env

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // the time zones, where the machine has none

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"

	wire "github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// Hold records that no agent on the servers of an environment is changed in a span of time.
func Hold(ctx context.Context, env *cli.Env, name string, f *environmentv1.Freeze) error {
	until := f.GetUntil().AsTime()
	if !until.After(env.Now()) {
		return cli.Usage("--until %s is in the past. Try: garrison hold --env %s --until 2d -m WHY",
			until.UTC().Format(time.RFC3339), name)
	}
	if from := f.GetFrom(); from != nil && !from.AsTime().Before(until) {
		return cli.Usage("--from %s is not before --until %s. Try: garrison hold --env %s --until 2d -m WHY",
			from.AsTime().UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), name)
	}
	err := edit(ctx, env, name, "is held "+freezeText(f), func(e environment) {
		e.Freezes = append(slices.DeleteFunc(e.Freezes, func(f *environmentv1.Freeze) bool {
			return !env.Now().Before(f.GetUntil().AsTime())
		}), f)
	})
	if err == nil {
		env.Say("to end it: garrison unhold --env %s", name)
	}
	return err
}

// Unhold ends every hold of an environment, also those that have not begun.
func Unhold(ctx context.Context, env *cli.Env, name string) error {
	ended := 0
	err := edit(ctx, env, name, "is not held", func(e environment) {
		for _, f := range e.Freezes {
			if f.GetUntil().AsTime().After(env.Now()) {
				ended++
			}
		}
		e.Freezes = nil
	})
	if err == nil {
		env.Say("%s ended", listing.Plural(ended, "hold"))
	}
	return err
}

// edit changes an environment as it is now; a change in between is refused.
func edit(ctx context.Context, env *cli.Env, name, done string, change func(environment)) error {
	have, err := noun(env).Find(ctx, name)
	if err != nil {
		return err
	}
	next := proto.CloneOf(have)
	change(next)
	if next, _, err = cli.Put[environment](ctx, env, wire.Change(next)); err != nil {
		return err
	}
	return cli.Changed(env, table, next, "environment %s %s", name, done)
}

// showTimes returns what the page of an environment shows of its windows, freezes and keep budgets.
func showTimes(e environment) (out [][2]string) {
	if len(e.GetWindows()) > 0 {
		out = append(out, [2]string{"WINDOWS", windowsText(e.GetWindows())})
	}
	for _, f := range e.GetFreezes() {
		out = append(out, [2]string{"HOLD", freezeText(f)})
	}
	if text := fetchText(e); text != "never" {
		out = append(out, [2]string{"FETCHES AHEAD", text})
	}
	if limit := e.GetBusyLimit(); limit != nil {
		out = append(out, [2]string{"BUSY LIMIT", listing.Span(limit.AsDuration())})
	}
	if len(e.GetKeep()) > 0 {
		out = append(out, [2]string{"KEEP", display.KeepText(e.GetKeep())})
	}
	return out
}

var days = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

// parseWindow parses "Mon-Fri 22:00-04:00 Europe/Berlin".
func parseWindow(text string) (*environmentv1.Window, error) {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%q is not a window such as \"Mon-Fri 22:00-04:00 Europe/Berlin\", or none: %s", text,
			fmt.Sprintf(format, args...))
	}
	w, words := &environmentv1.Window{}, strings.Fields(text)
	if len(words) > 0 && !strings.Contains(words[0], ":") {
		on, ok := daysOf(words[0])
		if !ok {
			return nil, bad("%q are not days; want %s, a span such as Mon-Fri, or several with commas", words[0],
				strings.Join(days[1:], ", "))
		}
		w.Days, words = on, words[1:]
	}
	if len(words) == 2 {
		w.Zone, words = words[1], words[:1]
	}
	if len(words) != 1 {
		return nil, bad("want [DAYS] FROM-UNTIL [ZONE]")
	}
	if _, err := time.LoadLocation(w.Zone); err != nil || w.Zone == "Local" {
		return nil, bad("%q is not a time zone; want an IANA name such as Europe/Berlin or UTC", w.Zone)
	}
	from, until, _ := strings.Cut(words[0], "-")
	begin, ok := minuteOf(from)
	end, also := minuteOf(until)
	if !ok || !also || begin == 24*60 {
		return nil, bad("%q are not two times of the day; want FROM-UNTIL, such as 22:00-04:00", words[0])
	}
	if end <= begin {
		end += 24 * 60
	}
	w.FromMinute, w.Minutes = begin, end-begin
	return w, nil
}

// daysOf parses "Mon-Wed,Sat".
func daysOf(text string) (on []uint32, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, span := strings.Cut(part, "-")
		from, to := dayOf(first), dayOf(last)
		if from == 0 || span && to == 0 {
			return nil, false
		}
		for d := from; ; d = d%7 + 1 {
			if on = append(on, d); !span || d == to {
				break
			}
		}
	}
	return on, true
}

func dayOf(name string) uint32 {
	for n := 1; n < len(days); n++ {
		if strings.EqualFold(days[n], name) {
			return uint32(n)
		}
	}
	return 0
}

func minuteOf(text string) (uint32, bool) {
	hour, minute, ok := strings.Cut(text, ":")
	h, err := strconv.ParseUint(hour, 10, 8)
	m, also := strconv.ParseUint(minute, 10, 8)
	if !ok || err != nil || also != nil || m > 59 || h > 24 || h == 24 && m > 0 || len(minute) != 2 {
		return 0, false
	}
	return uint32(h*60 + m), true
}

func windowsText(windows []*environmentv1.Window) string {
	var out []string
	for _, w := range windows {
		var on []string
		for _, d := range w.GetDays() {
			on = append(on, days[d%8])
		}
		until := w.GetFromMinute() + w.GetMinutes()
		text := strings.TrimSpace(fmt.Sprintf("%s %s-%s %s", strings.Join(on, ","), clock(w.GetFromMinute()),
			clock(until), w.GetZone()))
		if w.GetMinutes() > 24*60 { // by way of the API: the end may be days later
			text += fmt.Sprintf(" (%d minutes)", w.GetMinutes())
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func clock(minute uint32) string {
	if minute > 24*60 {
		minute %= 24 * 60
	}
	return fmt.Sprintf("%02d:%02d", minute/60, minute%60)
}

func freezeText(f *environmentv1.Freeze) string {
	text := "until " + listing.Stamp(f.GetUntil())
	if f.GetFrom() != nil {
		text = "from " + listing.Stamp(f.GetFrom()) + " " + text
	}
	if f.GetReason() != "" {
		text += ": " + f.GetReason()
	}
	return text
}
