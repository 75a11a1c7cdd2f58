"""The comparison of methods: `compare`, its tables, sentences and pictures."""
