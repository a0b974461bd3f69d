package packages

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// mapping turns the settings of a unit into the part run of a recipe.
type mapping struct {
	*conversion
	unit    *unit
	run     map[string]any
	sandbox map[string]any
	limits  map[string]any
}

// elsewhere are settings whose meaning is mapped elsewhere, or that say nothing about the agent.
var elsewhere = map[string]bool{
	"Unit.Description": true, "Unit.Documentation": true, "Service.ExecStart": true, "Service.Environment": true,
	"Service.EnvironmentFile": true, "Service.PIDFile": true, "Install.WantedBy": true,
}

// settings maps every setting of the unit.
func (m *mapping) settings() error {
	seen := map[string]bool{}
	for _, s := range m.unit.settings {
		name := s.section + "." + s.key
		if seen[name] || elsewhere[name] || len(m.unit.values(s.section, s.key)) == 0 {
			continue
		}
		seen[name] = true
		to, known := fields[name]
		value := m.unit.last(s.section, s.key)
		if lists[name] || !known {
			value = strings.Join(m.unit.values(s.section, s.key), " ")
		}
		if why := "no field of an image means it"; !known {
			m.note(code.NotMapped, s.key+"="+value, why)
		} else if why = to(m, m.unit.specifiers().Replace(value)); why != "" {
			m.note(code.NotMapped, s.key+"="+value, why)
		}
	}
	if len(m.sandbox) > 0 {
		m.run["sandbox"] = m.sandbox
	}
	if len(m.limits) > 0 {
		m.run["limits"] = m.limits
	}
	if m.unit.last("Service", "Type") == "forking" {
		return m.forking()
	}
	if m.run["ready"] == nil && m.unit.last("Service", "Type") != "oneshot" {
		m.note(code.NotMapped, "health check", "the unit has none; the agent counts as ready once it stays up: "+
			"run.ready")
	}
	return nil
}

// lists are settings whose values add up.
var lists = map[string]bool{
	"Service.ReadWritePaths": true, "Service.StateDirectory": true, "Service.CapabilityBoundingSet": true,
	"Service.AmbientCapabilities": true,
}

// fields map a setting, and return why they cannot.
var fields = map[string]func(m *mapping, value string) string{
	"Service.Type":            (*mapping).kind,
	"Service.Restart":         (*mapping).restart,
	"Service.ExecReload":      (*mapping).reload,
	"Service.User":            (*mapping).user,
	"Service.Group":           (*mapping).group,
	"Service.TimeoutStopSec":  func(m *mapping, v string) string { return m.time("stop_timeout", v) },
	"Service.TimeoutSec":      func(m *mapping, v string) string { return m.time("stop_timeout", v) },
	"Service.NoNewPrivileges": func(m *mapping, v string) string { return m.flag("no_new_privileges", v) },
	"Service.PrivateTmp":      func(m *mapping, v string) string { return m.flag("private_tmp", v) },
	"Service.ProtectHome":     func(m *mapping, v string) string { return m.flag("no_homes", v) },
	"Service.ProtectSystem": func(m *mapping, v string) string {
		if v != "strict" {
			return "only strict is mapped, to run.sandbox.read_only_system"
		}
		return m.flag("read_only_system", "true")
	},
	"Service.ReadWritePaths":        (*mapping).writable,
	"Service.StateDirectory":        (*mapping).state,
	"Service.CapabilityBoundingSet": (*mapping).capabilities,
	"Service.AmbientCapabilities":   (*mapping).capabilities,
	"Service.MemoryMax":             (*mapping).memory,
	"Service.MemoryLimit":           (*mapping).memory,
	"Service.CPUQuota": func(m *mapping, v string) string {
		m.limits["cpu"] = v
		return ""
	},
	"Service.TasksMax":    func(m *mapping, v string) string { return m.count("tasks", v) },
	"Service.LimitNOFILE": func(m *mapping, v string) string { return m.count("open_files", v) },
}

func (m *mapping) kind(value string) string {
	switch value {
	case "notify", "notify-reload":
		m.run["ready"] = map[string]any{"notify": true}
		if d := duration(m.unit.last("Service", "TimeoutStartSec")); d > 0 {
			m.run["ready"] = map[string]any{"notify": true, "timeout": d.String()}
		}
	case "simple", "exec", "idle", "forking", "oneshot":
	default:
		return "no field of an image means it; the agent is run as by Type=simple"
	}
	return ""
}

func (m *mapping) restart(value string) string {
	if value == "no" || value == "on-success" {
		return "an agent that ends is started again, whatever ended it"
	}
	return ""
}

// hangup matches a reload by SIGHUP.
var hangup = regexp.MustCompile(`^(/usr)?/bin/kill (-HUP|-SIGHUP|-1|-s (SIG)?HUP) \$\{?MAINPID\}?$`)

func (m *mapping) reload(value string) string {
	if !hangup.MatchString(strings.TrimLeft(value, "-")) {
		return "a changed configuration restarts the agent"
	}
	m.run["reload"] = "signal"
	return ""
}

func (m *mapping) user(value string) string {
	m.sandbox["user"] = value
	if value != "root" {
		m.note(code.NeedsUser, value, "the user must be on the server: nothing of the package makes it")
	}
	return ""
}

func (m *mapping) group(value string) string {
	if user := m.unit.last("Service", "User"); user != value {
		return "an agent has the groups of its user"
	}
	return ""
}

func (m *mapping) time(field, value string) string {
	d := duration(value)
	if d < time.Millisecond || d > time.Hour {
		return "it is no time up to an hour"
	}
	m.run[field] = d.String()
	return ""
}

func (m *mapping) flag(field, value string) string {
	switch strings.ToLower(value) {
	case "yes", "true", "on", "1":
		m.sandbox[field] = true
		return ""
	case "no", "false", "off", "0":
		return ""
	}
	return "only yes is mapped, to run.sandbox." + field
}

func (m *mapping) writable(value string) string {
	return m.addWritable(words(value))
}

func (m *mapping) state(value string) string {
	for _, name := range words(value) {
		_ = m.addWritable([]string{path.Join("/var/lib", name)})
	}
	return "it is not made; ${state} is a directory that is"
}

func (m *mapping) addWritable(paths []string) string {
	if m.unit.last("Service", "ProtectSystem") != "strict" {
		return "all is writable without ProtectSystem=strict"
	}
	have, _ := m.sandbox["writable"].([]string)
	for _, p := range paths {
		have = append(have, path.Clean(strings.TrimLeft(p, "-+")))
	}
	m.sandbox["writable"] = have
	return ""
}

func (m *mapping) capabilities(value string) string {
	if strings.Contains(value, "~") {
		return "name the capabilities that it keeps in run.sandbox.capabilities"
	}
	if _, bounded := m.sandbox["capabilities"]; !bounded || m.unit.last("Service", "CapabilityBoundingSet") == "" {
		m.sandbox["capabilities"] = words(value)
	}
	return ""
}

// bytesOf matches a number of bytes with a unit to the base 1024.
var bytesOf = regexp.MustCompile(`^([0-9]+)([KMGT]?)$`)

func (m *mapping) memory(value string) string {
	part := bytesOf.FindStringSubmatch(value)
	if part == nil {
		return "it is no number of bytes"
	}
	if part[2] == "" {
		n, err := strconv.ParseUint(part[1], 10, 64)
		if err != nil || n < 1024 {
			return "it is no number of bytes"
		}
		part[1], part[2] = strconv.FormatUint(n/1024, 10), "K"
	}
	m.limits["memory"] = part[1] + part[2] + "iB"
	return ""
}

func (m *mapping) count(field, value string) string {
	value, _, _ = strings.Cut(value, ":")
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return "it is no number"
	}
	m.limits[field] = n
	return ""
}

// span matches a part of a time of systemd.
var span = regexp.MustCompile(`([0-9.]+)\s*([a-z]*)`)

// spans are the units of such a time.
var spans = map[string]time.Duration{
	"": time.Second, "s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"ms": time.Millisecond, "msec": time.Millisecond, "m": time.Minute, "min": time.Minute, "minute": time.Minute,
	"minutes": time.Minute, "h": time.Hour, "hr": time.Hour, "hour": time.Hour,
}

// duration returns a time of systemd, such as 90 or 1min 30s, or 0.
func duration(text string) (d time.Duration) {
	for _, part := range span.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if spans[part[2]] == 0 || err != nil {
			return 0
		}
		d += time.Duration(n * float64(spans[part[2]]))
	}
	return d
}
