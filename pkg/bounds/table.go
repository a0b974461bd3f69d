package bounds

import "google.golang.org/protobuf/reflect/protoreflect"

// BeatBytes is the largest beat that is decoded; larger ones are ignored.
const BeatBytes = 4 << 10

// The limits of fields that the table does not name: texts and bytes in bytes, lists in elements.
const (
	Text  = 256
	Bytes = 64
	List  = 64
)

// ID is the limit of ids, codes, and the names of agents and hosts, in bytes.
const ID = 64

// The limits of a whole sysinfo in bytes, of its processors, and of the size of a memory or a disk.
const (
	SysinfoBytes = 16 << 10
	Processors   = 1 << 20
	Memory       = 1 << 60
)

// More is the largest number of elements that are counted instead of listed.
const More = 1 << 20

// rule is the limit of one field: the bytes of a text, or the elements of a list.
type rule struct {
	most int
	// count is the field that counts what was cut off a list. Without one a longer list is refused, because what it
	// lacks would be taken to be absent.
	count protoreflect.Name
}

// table names each field that has another limit than the default.
var table = map[protoreflect.FullName]rule{
	"garrison.report.v1.Beat.server_id":        {most: ID},
	"garrison.report.v1.Beat.boot_id":          {most: ID},
	"garrison.report.v1.Beat.executor_version": {most: ID},
	"garrison.report.v1.Beat.code":             {most: ID},
	"garrison.report.v1.Found.code":            {most: ID},
	"garrison.report.v1.Beat.session_id":       {most: ID},
	"garrison.report.v1.Beat.hostname":         {most: ID},

	"garrison.report.v1.Report.server_id":  {most: ID},
	"garrison.report.v1.Report.boot_id":    {most: ID},
	"garrison.report.v1.Report.journal_id": {most: ID},

	"garrison.report.v1.TaskReport.task_id": {most: ID},
	"garrison.task.v1.Outcome.code":         {most: ID},
	"garrison.task.v1.Outcome.reason":       {most: 1 << 10},
	"garrison.task.v1.Outcome.log_tail":     {most: 4 << 10},
	"garrison.task.v1.Shown.kept":           {most: 8},

	"garrison.report.v1.AgentsReport.agents":   {most: 4 << 10},
	"garrison.report.v1.AgentsReport.task_id":  {most: ID},
	"garrison.report.v1.Found.agent":           {most: ID},
	"garrison.report.v1.Found.instance_id":     {most: ID},
	"garrison.report.v1.Found.reason":          {most: 1 << 10},
	"garrison.report.v1.Found.other_server_id": {most: ID},
	"garrison.image.v1.Ref.id":                 {most: ID},
	"garrison.image.v1.Ref.version":            {most: 128},

	"garrison.report.v1.SysinfoReport.task_id":    {most: ID},
	"garrison.server.v1.Sysinfo.executor_version": {most: ID},
	"garrison.server.v1.Sysinfo.disks":            {most: List, count: "disks_more"},
	"garrison.server.v1.Sysinfo.addresses":        {most: List, count: "addresses_more"},

	"garrison.report.v1.ReceiptReport.task_id":     {most: ID},
	"garrison.report.v1.ReceiptReport.instance_id": {most: ID},
	"garrison.report.v1.ReceiptReport.agent":       {most: ID},
	"garrison.report.v1.ReceiptReport.removed":     {most: 4 << 10},

	"garrison.report.v1.CandidatesReport.candidates": {most: 8 << 10},
	"garrison.report.v1.CandidatesReport.detections": {most: List},
	"garrison.report.v1.CandidatesReport.task_id":    {most: ID},
	"garrison.server.v1.Candidate.detector":          {most: ID},
	"garrison.server.v1.Candidate.files":             {most: List, count: "files_more"},
	"garrison.server.v1.Detection.detector":          {most: ID},

	"garrison.registry.v1.EnrolRequest.server_id": {most: ID},
}
