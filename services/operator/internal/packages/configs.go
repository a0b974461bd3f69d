package packages

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// others are the directories of the configuration of other programs.
var others = []string{
	"etc/init.d/", "etc/rc.d/", "etc/logrotate.d/", "etc/cron", "etc/sudoers.d/", "etc/pam.d/", "etc/apparmor.d/",
	"etc/rsyslog.d/", "etc/bash_completion.d/", "etc/profile.d/", "etc/default/", "etc/sysconfig/", "etc/systemd/",
	"etc/sysctl.d/", "etc/tmpfiles.d/", "etc/security/", "etc/logcheck/", "etc/dbus-1/", "etc/udev/", "etc/modprobe.d/",
	"etc/init/", "etc/network/", "etc/dhcp/", "etc/ppp/", "etc/xdg/",
}

// maxConfigs is how many files of configuration an image has at most.
const maxConfigs = 64

// configure makes templates of the configuration files of the package. Their text becomes a template that renders to
// itself.
func (c *conversion) configure(run map[string]any) error {
	var list []map[string]any
	slices.Sort(c.software.configs)
	for _, name := range slices.Compact(c.software.configs) {
		if why := c.noConfig(name, len(list)); why != "" {
			c.note(code.NotMapped, name, why)
			continue
		}
		if c.baked[name] {
			continue
		}
		text, err := c.root.text(name)
		escaped := strings.ReplaceAll(text, "{{", "{{`{{`}}")
		if err != nil || len(escaped) > maxText || !utf8.ValidString(text) {
			c.note(code.NotMapped, name, "it is no text of a template's size; it stays a file of the image")
			continue
		}
		if escaped != text {
			if err := c.root.WriteFile(name, []byte(escaped), 0o644); err != nil {
				return err
			}
		}
		mode := c.content.Files[name].Mode.Perm() | 0o400
		list = append(list, map[string]any{"template": name, "path": name, "mode": mode})
		c.configs[name] = true
	}
	if len(list) > 0 {
		run["configs"] = list
	}
	return nil
}

// noConfig returns why a configuration file does not become a template, or nothing.
func (c *conversion) noConfig(name string, have int) string {
	_, isFile := c.content.Files[name]
	switch {
	case !isFile:
		return "the package does not have it"
	case c.baked[name]:
		return ""
	case have == maxConfigs:
		return "an image has at most 64 templates; it stays a file of the image"
	case slices.ContainsFunc(others, func(dir string) bool { return strings.HasPrefix(name, dir) }):
		return "it configures another program, which does not read it in the image"
	}
	return ""
}
