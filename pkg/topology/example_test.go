package topology_test

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

func ExampleReportSubject() {
	a := topology.ServerAddress{Cell: "main", Server: "4b2ecaa0-0ee7-4bb5-8de9-0a3e2a0e6d3b"}
	subject := topology.ReportSubject(a, topology.ReportTask)
	fmt.Println(subject)
	fmt.Println(topology.ReportsOf(topology.ReportTask)) // the same of all servers

	from, kind, err := topology.ParseReportSubject(subject)
	fmt.Println(from.Cell, kind, err)
	// Output:
	// garrison.report.main.4b2ecaa0-0ee7-4bb5-8de9-0a3e2a0e6d3b.task
	// garrison.report.*.*.task
	// main task <nil>
}
