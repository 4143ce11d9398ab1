package config

// RowNames returns the names of all rows of the table.
func RowNames() (names []string) {
	names = append(names, honoured...)
	for _, f := range others {
		names = append(names, f.Name)
	}
	return names
}
