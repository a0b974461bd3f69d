package triton

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

// server turns a CNAPI server into a server with its UUID. A server that is known by its UUID keeps its name.
func (c *convert) server(id string, f found) {
	info := f.within("sysinfo")
	name := f.text("hostname")
	if name == "" {
		name = info.text("Hostname")
	}
	if !ident.IsUUID(id) {
		c.skip(declare.Servers.Word, name, fmt.Sprintf("%q is no UUID", id))
		return
	}
	if known := c.ids[id]; known != "" {
		name = known
	}
	if err := ident.CheckHostname("server", name); err != nil {
		c.skip(declare.Servers.Word, id, err.Error())
		return
	}
	if other, _ := c.options.Live[declare.Servers][name].(*serverv1.Server); other != nil && other.GetId() != id {
		c.skip(declare.Servers.Word, name, "UUID "+id+": the name is taken by server "+other.GetId())
		return
	}
	if !c.take(declare.Servers, name, id) {
		return
	}
	s := &serverv1.Server{Id: id, Environment: c.options.Environment, Labels: c.labels(name, f.object, info)}
	c.add(declare.Servers, name, s, f)
}

// labelOf lists which fields become labels: of CNAPI, and else of the sysinfo.
var labelOf = []struct{ label, cnapi, sysinfo string }{
	{"datacenter", "datacenter", "Datacenter Name"},
	{"platform", "current_platform", "Live Image"},
	{"rack", "rack_identifier", ""},
	{"system", "system_type", "System Type"},
	{"serial", "serial", "Serial Number"},
	{"manufacturer", "", "Manufacturer"},
	{"product", "", "Product"},
}

// flagLabels lists the truth values that become labels where they are true.
var flagLabels = []struct{ label, cnapi, sysinfo string }{
	{"headnode", "headnode", ""},
	{"reserved", "reserved", ""},
	{"reservoir", "reservoir", ""},
	{"setup", "setup", "Setup"},
}

// maxLabelValue is the longest value of a label, in bytes.
const maxLabelValue = 255

// labels returns the labels of a server.
func (c *convert) labels(name string, o, info object) map[string]string {
	out := map[string]string{}
	set := func(label, value string) {
		if value == "" {
			return
		}
		if why := labelFits(label, value); why != "" {
			c.skip(declare.Servers.Word, name, "label "+label+": "+why)
			return
		}
		out[label] = value
	}
	for _, l := range labelOf {
		value := o.text(l.cnapi)
		if value == "" {
			value = info.text(l.sysinfo)
		}
		set(l.label, value)
	}
	boot := info.within("Boot Parameters")
	for _, l := range flagLabels {
		if o.is(l.cnapi) || info.is(l.sysinfo) || boot.is(l.label) {
			set(l.label, "true")
		}
	}
	traits := o.within("traits")
	for _, key := range slices.Sorted(maps.Keys(traits)) {
		c.trait(key, traits[key], set)
	}
	nics := info.within("Network Interfaces")
	for _, nic := range slices.Sorted(maps.Keys(nics)) {
		tags, _ := nics.within(nic)["NIC Names"].([]any)
		for _, tag := range tags {
			set("nic."+textOf(tag), nic)
		}
	}
	return out
}

// trait sets the labels of a trait: one for a single value, and one for each value of a list.
func (c *convert) trait(key string, v any, set func(label, value string)) {
	all, isList := v.([]any)
	if !isList {
		set("trait."+key, textOf(v))
		return
	}
	for _, one := range all {
		set("trait."+key+"."+textOf(one), "true")
	}
}

// labelFits returns why a label cannot be set; empty when it can.
func labelFits(label, value string) string {
	if err := ident.CheckHostname("label", label); err != nil || len(label) > 63 {
		return "want 1 to 63 letters, digits, inner dashes, underscores and dots"
	}
	if len(value) > maxLabelValue || strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("its value is not printable, or longer than %d bytes", maxLabelValue)
	}
	return ""
}
