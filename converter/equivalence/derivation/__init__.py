"""Derivation of an IR once more by its record, and what the record promises."""
