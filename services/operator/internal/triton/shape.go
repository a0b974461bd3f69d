package triton

import (
	"maps"
	"slices"
	"strings"
)

// shape is what an object of a dump is, known by its keys.
type shape string

// The shapes.
const (
	application shape = "application"
	service     shape = "service"
	instance    shape = "instance"
	server      shape = "server"
	sysinfo     shape = "sysinfo"
	image       shape = "image"
	template    shape = "template"
	task        shape = "task"
	entry       shape = "entry" // of an agent in a list without its server
	unknown     shape = "unknown"
)

// shapes lists the keys by which each shape is known. The first that fits counts.
var shapes = []struct {
	shape shape
	all   []string
	any   []string // one of them as well; none means no more
}{
	{instance, []string{"uuid", "service_uuid"}, nil},
	{service, []string{"uuid", "name", "application_uuid"}, nil},
	{image, []string{"v", "uuid", "name", "version"}, nil},
	{template, []string{"name", "path", "template"}, nil},
	{task, []string{"task", "server_uuid", "status"}, nil},
	{sysinfo, []string{"System Type"}, nil},
	{server, []string{"uuid"}, []string{"sysinfo", "hostname", "boot_platform", "current_platform"}},
	{application, []string{"uuid", "name"}, []string{"owner_uuid", "metadata_schema", "manifests", "metadata"}},
	{entry, []string{"name", "version"}, nil},
}

func shapeOf(o object) shape {
	for _, s := range shapes {
		if o.has(s.all...) && (len(s.any) == 0 || o.hasAny(s.any...)) {
			return s.shape
		}
	}
	return unknown
}

// maxKeys is how many keys of an object a message names.
const maxKeys = 6

// keysOf names the keys of an object, the first of many.
func keysOf(o object) string {
	keys := slices.Sorted(maps.Keys(o))
	if len(keys) > maxKeys {
		return strings.Join(keys[:maxKeys], ", ") + " and others"
	}
	return strings.Join(keys, ", ")
}
