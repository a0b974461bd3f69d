package rollout

import (
	"fmt"
	"time"
)

// doors holds back the servers whose environment is held or outside its windows, within one decision.
type doors struct {
	in    Input
	held  int
	until time.Time // when the first of them may be changed
	why   string
}

// shut reports whether a server must not be changed now. The emergency lane and an override pass what closes an
// environment, and no pause of the site.
func (d *doors) shut(server string) bool {
	s := d.in.Rollout.GetStrategy()
	if d.in.Paused != "" {
		d.held, d.until, d.why = d.held+1, d.in.PausedUntil, d.in.Paused
		return true
	}
	if d.in.Closed == nil || s.GetEmergency() || s.GetOverride() {
		return false
	}
	until, why := d.in.Closed(server)
	if why == "" {
		return false
	}
	if d.held++; d.why == "" || !until.IsZero() && (d.until.IsZero() || until.Before(d.until)) {
		d.until, d.why = until, why
	}
	return true
}

// note makes a decision wait for servers that are held back.
func (d *doors) note(to *Decision) {
	if d.held == 0 {
		return
	}
	text := d.why
	if !d.until.IsZero() {
		to.at(d.until)
		text += ", until " + d.until.UTC().Format("2006-01-02 15:04 UTC")
	}
	if !to.Acts() {
		to.Waits = fmt.Sprintf("%s: %s held back", text, some(d.held))
	}
}
